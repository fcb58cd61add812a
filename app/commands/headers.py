"""Write what a checkpoint folder holds, without its numbers: names, dtypes, shapes, offsets."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

MOST_NAMED = 5  # absent files


def arguments(parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="checkpoint folder, complete or in part")
    parser.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="JSON file to write, some megabytes for terabytes; params, compare, export and serve take it "
        "as a model",
    )


def run(options) -> None:
    from k3scope.model.checkpoint.checkpoint import read_official
    from k3scope.model.files.checkpoint_folder import Folder
    from k3scope.model.files.headers_file import HeadersFile, write_headers

    path, out = Path(options.folder), Path(options.out)
    if not path.is_dir():
        raise ValueError(f"{path}: no such folder; expected a checkpoint folder")
    if os.path.lexists(out) and not HeadersFile.is_one(out):
        raise ValueError(f"{out} is there already and holds no headers; choose another name")
    config, folder = read_official(path / "config.json"), Folder(path)
    with _replaced(out) as file:
        written = write_headers(folder, config, file)
    print(
        f"{out}: {out.stat().st_size:,} bytes; {written.tensors:,} tensors of {written.bytes:,} bytes in "
        f"{written.files:,} files"
    )
    if absent := written.absent:
        names = ", ".join(absent[:MOST_NAMED]) + (" and others" if absent[MOST_NAMED:] else "")
        print(f"not there, so that only names are known of their tensors: {len(absent):,} files, {names}")


@contextmanager
def _replaced(out: Path) -> Iterator[TextIO]:
    """A new file that takes the place of `out` when all of it is written. ValueError when it cannot be."""
    part = out.with_name(f"{out.name}.part")
    try:
        file = part.open("x", encoding="ascii")
    except FileExistsError:
        raise ValueError(f"{part} is there already; remove it first") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot write {out} ({getattr(error, 'strerror', error)})") from None
    try:
        with file:
            yield file
        part.replace(out)
    except OSError as error:
        raise ValueError(f"cannot write {out} ({error.strerror})") from None
    finally:
        part.unlink(missing_ok=True)

"""List, remove or write out the runs that a server keeps; also while it serves."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3scope.app.runs.run_store import Store, StoredRun

FILE_HELP = "SQLite file of runs, as of `serve --store` (default: in the user's cache)"


def arguments(parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="id, date and size of each run, without its prompt")
    listed.add_argument("--prompts", action="store_true", help="the prompts too, as visitors typed them")
    pruned = actions.add_parser("prune", help="remove runs, those that ran longest ago first")
    pruned.add_argument("--older-than", type=int, metavar="DAYS", help="runs that ran last so long ago")
    pruned.add_argument("--to-size", type=int, metavar="MB", help="until the rest takes at most so much")
    pruned.add_argument("--all", action="store_true", help="every run")
    pruned.add_argument("--yes", action="store_true", help="really, with --all")
    exported = actions.add_parser("export", help="JSON Lines, a run each, with its prompt")
    exported.add_argument("--out", metavar="FILE", help="file to write (default: standard output)")
    exported.add_argument("--images", metavar="DIR", help="folder for the images, each named by its sha256")
    for action in (listed, pruned, exported):
        action.add_argument("--store", metavar="FILE", help=FILE_HELP)


def run(options) -> None:
    """ValueError when there is no store, or none that can be read or written."""
    from k3scope.app.runs.run_store import StoreError

    store = _open(options.store)
    try:
        {"list": _list, "prune": _prune, "export": _export}[options.action](store, options)
    except StoreError as error:
        raise ValueError(f"{store.path}: {error}") from None
    finally:
        store.close()


def _open(path: str | None) -> Store:
    """A store that is there. Its bounds are the server's to keep, so here it has none."""
    from k3scope.app.runs.retention import UNBOUNDED
    from k3scope.app.runs.run_store import Store
    from k3scope.app.runs.store_file import default_path

    file = Path(path or default_path())
    if not file.exists():
        raise ValueError(f"{file}: there is no store of runs; `k3scope serve` makes one")
    return Store(file, UNBOUNDED)


def _list(store: Store, options) -> None:
    count = 0
    for stored in store.runs():
        count += 1
        print(_line(stored, options.prompts))
    print(f"{_count(count, 'run')}, {_megabytes(store.disk_bytes)} in {store.path}")
    for aside in sorted(Path(store.path).parent.glob(f"{Path(store.path).name}.corrupt-*")):
        print(f"set aside because it was damaged: {aside}, {_megabytes(aside.stat().st_size)}")


def _line(stored: StoredRun, prompts: bool) -> str:
    spec = stored.spec
    # repr: a prompt may have what moves a terminal's cursor
    size = repr(spec.prompt) if prompts else f"{len(spec.prompt):,} characters"
    images = f"{_count(len(spec.images), 'image')}, {_megabytes(stored.image_bytes)}" if spec.images else ""
    return "  ".join(filter(None, (spec.id, _date(stored), spec.model, size, images)))


def _date(stored: StoredRun) -> str:
    if stored.created is None:
        return "undated"
    return datetime.fromtimestamp(stored.created).strftime("%Y-%m-%d %H:%M")


def _prune(store: Store, options) -> None:
    from k3scope.app.runs.retention import UNBOUNDED, Retention

    if options.older_than is None and options.to_size is None and not options.all:
        raise ValueError("prune: expected --older-than DAYS, --to-size MB or --all")
    for option, value in (("--older-than", options.older_than), ("--to-size", options.to_size)):
        if value is not None and value < 1:
            raise ValueError(f"{option} {value}: expected at least 1")
    if options.all and not options.yes:
        raise ValueError(f"--all removes all {len(store):,} runs of {store.path}: add --yes")
    bounds = Retention(
        options.to_size or UNBOUNDED.megabytes, options.older_than or 0, 0 if options.all else UNBOUNDED.runs
    )
    before = store.disk_bytes
    removed = store.prune(bounds)
    print(
        f"{_count(removed, 'run')} removed, {len(store):,} left; "
        f"{_megabytes(before)} before, {_megabytes(store.disk_bytes)} now"
    )


def _export(store: Store, options) -> None:
    try:
        with open(options.out, "w", encoding="utf-8") if options.out else nullcontext(sys.stdout) as out:
            for stored in store.runs():
                spec = asdict(stored.spec)
                print(json.dumps({"id": stored.spec.id, "created": stored.created, **spec}), file=out)
                if options.images:
                    _write_images(store, stored.spec.images, Path(options.images))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise ValueError(f"cannot write {error.filename or options.out} ({error.strerror})") from None


def _write_images(store: Store, shas: Iterable[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for sha in shas:
        if (image := store.image(sha)) and not (folder / sha).exists():
            (folder / sha).write_bytes(image[1])


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def _megabytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MB"

"""model.safetensors.index.json: which file holds a tensor. It may have half a million entries."""

import posixpath
from pathlib import Path, PureWindowsPath
from reprlib import repr as short
from typing import Any

from k3scope.model.files.json_file import file_size
from k3scope.model.files.json_stream import JsonStream, Limits
from k3scope.model.files.safetensors_header import check_name, shown

LARGEST_INDEX = 512 * 2**20  # bytes; that of half a million tensors has 60 MB
MOST_NAMES, MOST_FILES = 2**20, 10_000
MOST_LETTERS = 2**27  # of all names together
_LIMITS = Limits({"{": 300_000, "[": 300_000, ",": MOST_NAMES + 100_000})


class WeightMap(dict[str, str]):
    """Tensor -> file, within limits; a ValueError says which entry cannot be."""

    def __init__(self):
        super().__init__()
        self._files: dict[Any, str] = {}  # as written -> as it is kept
        self._letters = 0

    def add(self, name: str, file: Any) -> None:
        check_name(name)
        self._letters += len(name) if name.isascii() else 4 * len(name)
        if len(self) >= MOST_NAMES or self._letters > MOST_LETTERS:
            raise ValueError(f"more than {MOST_NAMES:,} tensors, or {MOST_LETTERS:,} letters of names")
        kept = self._files.get(file) if isinstance(file, str) else None
        if kept is None:
            kept = self._files[file] = checked_file(name, file)
            if len(self._files) > MOST_FILES:
                raise ValueError(f"more than {MOST_FILES:,} files")
        if self.setdefault(name, kept) != kept:
            raise ValueError(f"{shown(name)} is in both {shown(self[name])} and {shown(kept)}")


def read_index(path: Path) -> WeightMap:
    """ValueError says why a file is no index, or which of its entries cannot be."""
    try:
        size = file_size(path)
        if size > LARGEST_INDEX:
            raise ValueError(f"{size:,} bytes; expected at most {LARGEST_INDEX:,}")
        with path.open("rb") as file:
            return _read(JsonStream(file, size, _LIMITS))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        why = str(error).removeprefix(f"{path}: ")
        raise ValueError(f"{path}: not an index of safetensors files ({why})") from None


def _read(stream: JsonStream) -> WeightMap:
    weight_map = None
    for key in stream.entries():
        if key != "weight_map":
            stream.value()
            continue
        if weight_map is not None:
            raise ValueError("weight_map stands twice in it")
        weight_map = WeightMap()
        for name in stream.entries():
            weight_map.add(name, stream.value())
    stream.end()
    if weight_map is None:
        raise ValueError("no weight_map")
    return weight_map


def checked_file(name: str, file: Any) -> str:
    """Where a tensor is, relative to the folder: never outside it, and never a pickle."""
    if not isinstance(file, str) or not file:
        said = "null" if file is None else short(file)
        raise ValueError(f"{shown(name)} is in {said}; expected the name of a .safetensors file")
    where = PureWindowsPath(file)  # knows / and \, drives and roots, on every system
    inside = not (where.drive or where.root or ".." in where.parts)
    named = all(len(part.encode(errors="replace")) <= 255 for part in file.split("/")) and len(file) <= 1024
    if not (inside and named and file.isprintable()):
        raise ValueError(f"{short(file)} is no file name in this folder")
    if not file.endswith(".safetensors"):
        raise ValueError(no_safetensors(file))
    return posixpath.normpath(file)


def no_safetensors(file: str) -> str:
    return f"{shown(file)} is no safetensors file: a pickle, which can run code when opened, is refused"

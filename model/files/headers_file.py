"""A checkpoint folder without its numbers, in one JSON file: the layout of terabytes in some megabytes.

    {"k3scope_headers": 1,
     "config": {what config.json holds},
     "files": {
      "model-00001-of-00096.safetensors": {
       "bytes": 16283904, "header_bytes": 5120,
       "kinds": [["BF16", [7168]], ...],
       "tensors": {
        "language_model.model.layers.1.": {"input_layernorm.weight": [0, 14336], ...}, ...}}, ...}}

A tensor is named by the two keys that it stands under; [kind, where its bytes begin behind the header of its
file]. A file that was not there has only the lists of names that the index places in it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from k3scope.model.files.checkpoint_folder import Folder
from k3scope.model.files.json_file import DEEPEST, file_size
from k3scope.model.files.json_stream import JsonStream, Limits
from k3scope.model.files.safetensors_header import (
    TensorHeader,
    byte_count,
    check_kind,
    check_places,
    is_size,
    shown,
)
from k3scope.model.files.safetensors_shard import Shard
from k3scope.model.files.weight_index import MOST_NAMES, WeightMap, checked_file

VERSION = 1
MARK = "k3scope_headers"
LARGEST = 512 * 2**20  # bytes; that of half a million tensors has 16 MB
_BEGIN = re.compile(rb'\s*\{\s*"' + MARK.encode() + b'"')
_LIMITS = Limits(
    {"{": MOST_NAMES, "[": 2 * MOST_NAMES, ",": 3 * MOST_NAMES}, largest_value=16 * 2**20, deepest=DEEPEST + 1
)
_PREFIX = re.compile(r"(?:.*\.\d+\.)?")  # of a name, up to the last number in it


@dataclass(frozen=True)
class FileHeaders:
    """What one file of a folder holds."""

    headers: dict[str, TensorHeader]


class HeadersFile:
    """Headers as a `Folder` gives them, without numbers. ValueError says what is wrong with the file."""

    def __init__(self, path: Path):
        self.path = path
        self.config: Any = None  # what config.json held
        self.weight_map = WeightMap()
        self._read: dict[str, FileHeaders] = {}
        self.absent: list[str] = []
        try:
            size = file_size(path)
            if size > LARGEST:
                raise ValueError(f"{size:,} bytes; expected at most {LARGEST:,}")
            with path.open("rb") as file:
                self._parse(JsonStream(file, size, _LIMITS))
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
        except ValueError as error:
            why = str(error).removeprefix(f"{path}: ")
            raise ValueError(f"{path}: not a file of headers that can be read ({why})") from None
        self.files = sorted(self._read)

    @staticmethod
    def is_one(path: Path) -> bool:
        """Whether a file begins as one."""
        try:
            if not path.is_file():
                return False
            with path.open("rb") as file:
                return _BEGIN.match(file.read(256)) is not None
        except (OSError, ValueError):
            return False

    def shard(self, file: str) -> FileHeaders:
        return self._read[file]

    def header(self, name: str) -> TensorHeader | None:
        """As `Folder.header`."""
        file = self._read.get(self.weight_map.get(name, ""))
        return file and file.headers[name]

    def view(self, name: str) -> NoReturn:
        """ValueError: there are no numbers."""
        raise ValueError(
            f"{self.path}: holds the headers of a checkpoint, none of its numbers; "
            f"name the folder that has them"
        )

    def release(self, name: str) -> None:
        """There are no pages to drop."""

    def close(self) -> None:
        """Nothing is mapped."""

    def _parse(self, stream: JsonStream) -> None:
        seen = set()
        for key in stream.entries():
            if key in seen:
                raise ValueError(f"{shown(key)} stands twice in it")
            seen.add(key)
            if key == "files":
                for file in stream.entries():
                    self._add(checked_file(file, file), stream.value())
                continue
            value = stream.value()
            if key == MARK and (type(value) is not int or value != VERSION):
                raise ValueError(f"{MARK} is {value!r:.40}; this program reads {VERSION}")
            if key == "config":
                self.config = value
        stream.end()
        if "config" not in seen or "files" not in seen:
            raise ValueError("expected config and files in it")

    def _add(self, file: str, raw: Any) -> None:
        if file in self._read or file in self.absent:
            raise ValueError(f"{shown(file)} stands twice in it")
        if not isinstance(raw, dict) or not isinstance(raw.get("tensors"), dict):
            raise ValueError(f"{shown(file)} has no tensors")
        groups = raw["tensors"]
        if "bytes" not in raw:
            self._add_absent(file, groups)
            return
        size, length = raw["bytes"], raw.get("header_bytes")
        if not is_size(size) or not is_size(length) or size < 8 + length:
            raise ValueError(f"{shown(file)} has no whole numbers bytes and header_bytes")
        headers = dict(_headers(groups, _kinds(file, raw.get("kinds")), 8 + length))
        if len(headers) < sum(map(len, groups.values())):
            raise ValueError(f"{shown(file)} has a tensor twice")
        try:
            check_places(headers, 8 + length, size)
        except ValueError as error:
            raise ValueError(f"{shown(file)}: {error}") from None
        for name in headers:
            self.weight_map.add(name, file)
        self._read[file] = FileHeaders(headers)

    def _add_absent(self, file: str, groups: dict[str, Any]) -> None:
        for prefix, names in groups.items():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{shown(file)} has no list of names under {shown(prefix)}")
            for name in names:
                self.weight_map.add(prefix + name, file)
        self.absent.append(file)


def _kinds(file: str, raw: Any) -> list[tuple[str, tuple[int, ...], int]]:
    """Each dtype with its shape, and the bytes of such a tensor."""
    kinds = []
    for kind in raw if isinstance(raw, list) else [None]:
        if not isinstance(kind, list) or len(kind) != 2:
            raise ValueError(f"{shown(file)} has no list of kinds, each a dtype and a shape")
        try:
            check_kind(*kind)
            kinds.append((kind[0], tuple(kind[1]), byte_count(*kind)))
        except ValueError as error:
            raise ValueError(f"{shown(file)}: kind {len(kinds)} {error}") from None
    return kinds


def _headers(groups: dict, kinds: list, base: int) -> Iterator[tuple[str, TensorHeader]]:
    for prefix, group in groups.items():
        if not isinstance(group, dict):
            raise ValueError(f"{shown(prefix)} holds no tensors")
        for rest, where in group.items():
            if (
                not isinstance(where, list)
                or len(where) != 2
                or not all(map(is_size, where))
                or where[0] >= len(kinds)
            ):
                raise ValueError(
                    f"{shown(prefix + rest)} has {where!r:.60}; expected the number of a kind, and an offset"
                )
            dtype, shape, size = kinds[where[0]]
            start = base + where[1]
            yield prefix + rest, TensorHeader(dtype, shape, start, start + size)


@dataclass(frozen=True)
class Written:
    """What `write_headers` found."""

    tensors: int
    bytes: int
    files: int
    absent: list[str]


def write_headers(folder: Folder, config: dict[str, Any], out: TextIO) -> Written:
    """Write names, dtypes, shapes and offsets of a folder, file by file, and what its config.json holds.

    ValueError when a file contradicts the index. Of an absent file only names are known.
    """
    placed: dict[str, list[str]] = {}
    for name, file in folder.weight_map.items():
        placed.setdefault(file, []).append(name)
    out.write(f'{{"{MARK}": {VERSION},\n"config": {json.dumps(config)},\n"files": {{')
    tensors = size = 0
    for n, (file, names) in enumerate(sorted(placed.items())):
        out.write(f"{',' if n else ''}\n{json.dumps(file)}: {{")
        if file in folder.absent:
            _write_groups(dict.fromkeys(names, ""), out, "[]")
            continue
        shard = Shard(folder.path / file)
        folder.check(file, shard.headers, names)
        tensors += len(shard.headers)
        size += sum(h.stop - h.start for h in shard.headers.values())
        _write_file(shard, out)
    out.write("\n}}\n")
    return Written(tensors, size, len(placed) - len(folder.absent), folder.absent)


def _write_file(shard: Shard, out: TextIO) -> None:
    kinds: dict[tuple, int] = {}
    base = shard.data_start
    places = {
        name: f"[{kinds.setdefault((h.dtype, h.shape), len(kinds))},{h.start - base}]"
        for name, h in shard.headers.items()
    }
    out.write(f'"bytes": {shard.size}, "header_bytes": {base - 8}, "kinds": {json.dumps(list(kinds))},\n')
    _write_groups(places, out, "{}")


def _write_groups(places: dict[str, str], out: TextIO, marks: str) -> None:
    """Names by what they begin with, a line for each beginning."""
    groups: dict[str, list[str]] = {}
    for name, place in places.items():
        prefix = _PREFIX.match(name)[0]
        rest = json.dumps(name[len(prefix) :])
        groups.setdefault(prefix, []).append(f"{rest}:{place}" if place else rest)
    lines = (f"{json.dumps(prefix)}: {marks[0]}{','.join(g)}{marks[1]}" for prefix, g in groups.items())
    out.write('"tensors": {' + ",\n ".join(lines) + "}}")

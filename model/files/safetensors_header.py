"""The header of a safetensors file: JSON of perhaps a hundred thousand tensors, read within limits."""

from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

from k3scope.model.files.json_file import parse_json

HEADER_LIMIT = 64 * 2**20  # bytes; a shard of the release has some hundred kB
MOST_TENSORS = 300_000  # of one file; the whole release has half a million in 96
LONGEST_NAME = 1024
MOST_AXES, LONGEST_AXIS = 16, 2**48
LARGEST_UNICODE = 4 * 2**20  # bytes of a text that is not ASCII: in memory it takes up to four times as much
KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """Where a tensor lies: dtype, shape, and its bytes counted from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(text: bytes) -> dict[str, TensorHeader]:
    """The tensors by name. ValueError says what a header has that no header may have."""
    check_marks(text, {b"{": MOST_TENSORS + 1000, b"[": 2 * MOST_TENSORS + 1000, b",": 16 * MOST_TENSORS})
    base, made = 8 + len(text), []

    def entry(raw: dict[str, Any]) -> Any:
        if raw.keys() != KEYS:
            return raw
        made.append(None)
        if len(made) > MOST_TENSORS:
            raise ValueError(f"more than {MOST_TENSORS:,} tensors")
        return _header(raw, base)

    header = parse_json(text, entry)
    if not isinstance(header, dict):
        raise ValueError("its header cannot be read: expected an object")
    header.pop("__metadata__", None)
    for name, tensor in header.items():
        if len(name) > LONGEST_NAME:
            raise ValueError(f"a name of {len(name):,} letters; expected at most {LONGEST_NAME:,}")
        if not isinstance(tensor, TensorHeader):
            raise ValueError(f"its header cannot be read: {name} has no dtype, shape and data_offsets")
    if len(header) != len(made):
        raise ValueError("a name stands twice in its header")
    return header


def check_marks(text: bytes, most: dict[bytes, int]) -> None:
    """Before it is parsed: how much JSON could become of a text."""
    if len(text) > LARGEST_UNICODE and not text.isascii():
        raise ValueError(f"{len(text):,} bytes that are not ASCII; expected at most {LARGEST_UNICODE:,}")
    for mark, limit in most.items():
        if (count := text.count(mark)) > limit:
            raise ValueError(f"{count:,} times {mark.decode()!r}; expected at most {limit:,}")


def _header(raw: dict[str, Any], base: int) -> TensorHeader:
    dtype, shape, offsets = raw["dtype"], raw["shape"], raw["data_offsets"]
    if not isinstance(dtype, str) or len(dtype) > 16:
        raise ValueError("a dtype is no name")
    if not isinstance(shape, list) or len(shape) > MOST_AXES or not all(map(_is_size, shape)):
        raise ValueError("a shape is no list of whole numbers from 0 on")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise ValueError("data_offsets are no two whole numbers from 0 on")
    start, stop = offsets
    if stop < start:
        raise ValueError(f"data_offsets end at {stop:,}, before they begin at {start:,}")
    return TensorHeader(dtype, tuple(shape), base + start, base + stop)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LONGEST_AXIS


def overlapping(headers: dict[str, TensorHeader]) -> tuple[str, str] | None:
    """Names of two tensors that share bytes."""
    ordered = sorted((h for h in headers.values() if h.stop > h.start), key=attrgetter("start"))
    for before, after in pairwise(ordered):
        if after.start < before.stop:
            names = [name for name, header in headers.items() if header is before or header is after]
            return names[0], names[1]
    return None

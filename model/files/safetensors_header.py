"""The header of a safetensors file: what it says of each tensor, checked as the safetensors library does."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import repr as short
from typing import Any, BinaryIO

from k3scope.model.files.json_stream import JsonStream, Limits

HEADER_LIMIT = 100_000_000  # bytes, as in the library; a shard of the release has some hundred kB
MOST_TENSORS = 200_000  # of one file; the whole release has half a million in 96
LONGEST_NAME = 1024
MOST_AXES = 64
LARGEST = 2**64  # what the library counts bytes with
LARGEST_UNICODE = 4 * 2**20  # bytes of a text that is not ASCII: in memory it takes up to four times as much
LIMITS = Limits({"{": MOST_TENSORS + 1000, "[": 2 * MOST_TENSORS + 1000, ",": 16 * MOST_TENSORS}, deepest=127)
KEYS = ("dtype", "shape", "data_offsets")
# the dtypes of the format, and the bits of one number
BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8,
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
_MINUS_ZERO = re.compile(r"[\[,]\s*-0\s*[,\]]")  # Python reads it as 0, the library as a fraction


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """Where a tensor lies: dtype, shape, and its bytes counted from the start of the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_header(file: BinaryIO, length: int) -> dict[str, TensorHeader]:
    """The tensors by name, of the `length` bytes that come next. ValueError says what no header may have."""
    stream, headers, metadata = JsonStream(file, length, LIMITS), {}, False
    for name in stream.entries():
        check_name(name)
        value = stream.value()
        if name == "__metadata__":
            if metadata:
                raise ValueError("__metadata__ stands twice in its header")
            metadata = True
            _check_metadata(value)
            continue
        if name in headers:
            raise ValueError(f"a name stands twice in its header: {shown(name)}")
        if len(headers) == MOST_TENSORS:
            raise ValueError(f"more than {MOST_TENSORS:,} tensors")
        if stream.holds("-0") and stream.found(_MINUS_ZERO):
            raise ValueError(f"{shown(name)} has -0 in its shape or data_offsets; expected 0")
        headers[name] = _header(name, value, 8 + length)
    stream.end()
    return headers


def check_marks(text: bytes, most: dict[bytes, int]) -> None:
    """Before it is parsed: how much JSON could become of a text."""
    if len(text) > LARGEST_UNICODE and not text.isascii():
        raise ValueError(f"{len(text):,} bytes that are not ASCII; expected at most {LARGEST_UNICODE:,}")
    for mark, limit in most.items():
        if (count := text.count(mark)) > limit:
            raise ValueError(f"{count:,} times {mark.decode()!r}; expected at most {limit:,}")


def shown(name: str) -> str:
    """A name in a sentence: one line, of which one can read the end."""
    name = name if len(name) < 200 else f"{name[:100]}...{name[-60:]}"
    return name if name.isprintable() and name else repr(name)


def check_name(name: str) -> None:
    """ValueError for a name of a tensor that is too long, or no text."""
    if len(name) > LONGEST_NAME:
        raise ValueError(f"a name of {len(name):,} letters; expected at most {LONGEST_NAME:,}")
    if not name.isascii():
        _check_text(name)


def check_places(headers: dict[str, TensorHeader], begin: int, size: int) -> None:
    """Each tensor follows the one before, from byte `begin` to the end of the file: no gap, no overlap."""
    stop, last = begin, ""
    for name, header in sorted(headers.items(), key=lambda item: (item[1].start, item[1].stop)):
        if header.start < stop:
            raise ValueError(f"{shown(last)} and {shown(name)} lie on the same bytes; each has its own")
        if header.start > stop:
            raise ValueError(f"{header.start - stop:,} bytes before {shown(name)} belong to no tensor")
        stop, last = header.stop, name
    if stop > size:
        raise ValueError(f"{size:,} bytes; its header describes {stop:,}")
    if stop < size:
        raise ValueError(f"{size - stop:,} bytes behind the last tensor belong to none")


def byte_count(dtype: str, shape: Iterable[int]) -> int:
    """Bytes of a tensor. ValueError when there is no such number, or they do not end with a byte."""
    bits = 1
    for size in shape:
        bits *= size
        if bits >= LARGEST:
            raise ValueError("has a shape of over 2^64 numbers")
    bits *= BITS[dtype]
    if bits >= LARGEST:
        raise ValueError("has a shape of over 2^64 bits")
    if bits % 8:
        raise ValueError(f"has {bits:,} bits of {dtype}, which end inside a byte")
    return bits // 8


def check_kind(dtype: Any, shape: Any) -> None:
    """ValueError says which is none, without the name of the tensor."""
    if not isinstance(dtype, str) or dtype not in BITS:
        raise ValueError(f"has dtype {short(dtype)}; expected one of {', '.join(BITS)}")
    if not isinstance(shape, list) or not all(map(is_size, shape)):
        raise ValueError("has a shape that is no list of whole numbers from 0 on")
    if len(shape) > MOST_AXES:
        raise ValueError(f"has a shape of {len(shape):,} axes; at most {MOST_AXES} are read")


def is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _header(name: str, raw: Any, base: int) -> TensorHeader:
    if not isinstance(raw, dict) or not all(key in raw for key in KEYS):
        raise ValueError(f"its header cannot be read: {shown(name)} has no dtype, shape and data_offsets")
    if len(raw) > len(KEYS):
        for key in raw.keys() - set(KEYS):
            _check_text(key)
            _check_other(raw[key])
    offsets = raw["data_offsets"]
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_size, offsets)):
        raise ValueError(f"{shown(name)} has data_offsets that are no two whole numbers from 0 on")
    dtype, shape, (start, stop) = raw["dtype"], raw["shape"], offsets
    try:
        check_kind(dtype, shape)
        if stop < start:
            raise ValueError(f"has data_offsets that end {start - stop:,} bytes before they begin")
        if stop - start != byte_count(dtype, shape):
            raise ValueError(f"has {stop - start:,} bytes, not those of its shape")
    except ValueError as error:
        raise ValueError(f"{shown(name)} {error}") from None
    return TensorHeader(dtype, tuple(shape), base + start, base + stop)


def _check_metadata(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("its __metadata__ is no object of texts")
    for item in value.items():
        for text in item:
            _check_text(text)


def _check_other(value: Any) -> None:
    """What no one reads; the library looks only whether it is JSON."""
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int) and abs(value) >= 2**1023:
        raise ValueError("a number out of range")
    elif isinstance(value, dict):
        _check_other(list(value))
        _check_other(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            _check_other(one)


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("a text with half a letter (a lone surrogate)") from None

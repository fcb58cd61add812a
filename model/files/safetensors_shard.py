"""One safetensors file: its header checked at once, its numbers mapped into memory on demand."""

import mmap
import struct
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from k3scope.model.files.json_file import file_size
from k3scope.model.files.safetensors_header import HEADER_LIMIT, TensorHeader, overlapping, read_header

DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
    "U8": torch.uint8, "I32": torch.int32, "I64": torch.int64,
    "I8": torch.int8, "I16": torch.int16, "F8_E4M3": torch.float8_e4m3fn, "F8_E8M0": torch.float8_e8m0fnu,
}  # fmt: skip


class Shard:
    """A safetensors file. ValueError when it is not complete; no number is read before `tensor`."""

    def __init__(self, path: Path):
        self.path = path
        self.headers: dict[str, TensorHeader] = _headers(path)
        self._map: mmap.mmap | None = None

    def tensor(self, name: str) -> Tensor:
        """A view into the file: pages are read when they are touched, and writes stay in memory."""
        header = self.headers[name]
        count = prod(header.shape)
        dtype = DTYPES[header.dtype]
        if not count:
            return torch.empty(header.shape, dtype=dtype)
        if self._map is None:
            with self.path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        raw = torch.frombuffer(
            self._map, dtype=torch.uint8, count=header.stop - header.start, offset=header.start
        )
        if header.start % dtype.itemsize:
            raw = raw.clone()  # a view needs aligned bytes
        return raw.view(dtype).view(header.shape)

    def release(self, name: str) -> None:
        """Drop the pages of a tensor that has been copied: they cost no memory any more."""
        header = self.headers[name]
        start = -(-header.start // mmap.PAGESIZE) * mmap.PAGESIZE
        stop = header.stop // mmap.PAGESIZE * mmap.PAGESIZE
        if self._map is not None and stop > start and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, start, stop - start)

    def close(self) -> None:
        """Unmap the file as soon as no tensor views it."""
        self._map = None


def _headers(path: Path) -> dict[str, TensorHeader]:
    size = file_size(path)
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8))[0] if size >= 8 else 0
        if not 2 <= length <= min(size - 8, HEADER_LIMIT):
            raise ValueError(
                f"{path}: not a whole safetensors file (no header in its {size:,} bytes, or one of over "
                f"{HEADER_LIMIT:,})"
            )
        text = file.read(length)
    try:
        headers = read_header(text)
    except ValueError as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error})") from None
    _check(path, headers, size)
    return headers


def _check(path: Path, headers: dict[str, TensorHeader], size: int) -> None:
    for name, header in headers.items():
        if header.dtype not in DTYPES:
            raise ValueError(f"{path}: {name} has dtype {header.dtype}; expected one of {', '.join(DTYPES)}")
        if header.stop - header.start != prod(header.shape) * DTYPES[header.dtype].itemsize:
            raise ValueError(
                f"{path}: {name} has {header.stop - header.start:,} bytes, not those of its shape"
            )
    end = max((header.stop for header in headers.values()), default=0)
    if end > size:
        raise ValueError(
            f"{path}: not a whole safetensors file ({size:,} bytes; its header describes {end:,})"
        )
    if pair := overlapping(headers):
        raise ValueError(f"{path}: {pair[0]} and {pair[1]} lie on the same bytes; each has its own")

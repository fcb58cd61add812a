"""One safetensors file: its header checked at once, its numbers mapped into memory on demand."""

import mmap
import struct
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from k3scope.model.files.json_file import file_size
from k3scope.model.files.safetensors_header import HEADER_LIMIT, TensorHeader, check_places, read_header

# those that torch has as one number each
DTYPES = {
    "BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "F64": torch.float64,
    "U8": torch.uint8, "U16": torch.uint16, "U32": torch.uint32, "U64": torch.uint64, "BOOL": torch.bool,
    "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64, "C64": torch.complex64,
    "F8_E5M2": torch.float8_e5m2, "F8_E4M3": torch.float8_e4m3fn, "F8_E8M0": torch.float8_e8m0fnu,
    "F8_E4M3FNUZ": torch.float8_e4m3fnuz, "F8_E5M2FNUZ": torch.float8_e5m2fnuz,
}  # fmt: skip


class Shard:
    """A safetensors file. ValueError when it is not complete; no number is read before `tensor`."""

    def __init__(self, path: Path):
        self.path = path
        self.size = file_size(path)  # bytes
        self.headers, self.data_start = _headers(path, self.size)
        self._map: mmap.mmap | None = None

    def tensor(self, name: str) -> Tensor:
        """A view into the file: pages are read when they are touched, and writes stay in memory.

        ValueError for a dtype whose numbers are not read.
        """
        header = self.headers[name]
        if header.dtype not in DTYPES:
            raise ValueError(f"{self.path}: {name} is stored as {header.dtype}, whose numbers are not read")
        dtype = DTYPES[header.dtype]
        if not prod(header.shape):
            return _empty(header.shape, dtype, f"{self.path}: {name}")
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


def _empty(shape: tuple[int, ...], dtype: torch.dtype, what: str) -> Tensor:
    try:
        return torch.empty(shape, dtype=dtype)
    except (RuntimeError, TypeError, OverflowError):  # [0, 2^63]
        raise ValueError(f"{what} has a shape that torch cannot make: {shape}") from None


def _headers(path: Path, size: int) -> tuple[dict[str, TensorHeader], int]:
    """The tensors by name, and the byte behind the header."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    with file:
        length = struct.unpack("<Q", file.read(8))[0] if size >= 8 else 0
        if not 2 <= length <= min(size - 8, HEADER_LIMIT):
            raise ValueError(
                f"{path}: not a whole safetensors file (no header in its {size:,} bytes, or one of over "
                f"{HEADER_LIMIT:,})"
            )
        try:
            headers = read_header(file, length)
            check_places(headers, 8 + length, size)
        except ValueError as error:
            raise ValueError(f"{path}: not a whole safetensors file ({error})") from None
    return headers, 8 + length

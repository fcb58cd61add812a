"""How one quantised matrix is stored: the tensors it becomes, by the public rule of its format."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One of the tensors of a matrix: `suffix` follows the name of its module and a dot."""

    suffix: str  # "weight_packed"
    dtype: str  # as safetensors calls it
    shape: tuple[int, ...]
    role: str = "scale"  # or "packed" (the numbers, several in one element), or "weight" (one in each)


@dataclass(frozen=True)
class Scheme:
    """The rule that a matrix is stored by."""

    format: str  # public name: "nvfp4-pack-quantized"

    @property
    def label(self) -> str:
        """Short name of the numbers, for a row of a table: "NVFP4"."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.format

    @property
    def runs(self) -> bool:
        """Whether the numbers can be decoded here: MXFP4 with one power of two for 32 of them."""
        return False

    def parts(self, rows: int, width: int, stored: str) -> tuple[Part, ...]:
        """The tensors of a matrix [rows, width] whose model is stored as `stored`: "BF16".

        ValueError when the format has no place for these sizes.
        """
        raise NotImplementedError


def groups(width: int, size: int) -> int:
    """How many groups of `size` cover `width`; the last may be shorter."""
    return -(-width // size)

"""MXFP4: two 4-bit codes a byte and one power of two for each 32 of them."""

from functools import lru_cache

import torch
from torch import Tensor

GROUP = 32  # elements that share a scale, along the last axis
VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the codes 0..7; 8..15 are their negatives
# halfway between neighbours; at a tie the even code wins
_TIES_DOWN, _TIES_UP = (0.25, 1.25, 2.5, 5.0), (0.75, 1.75, 3.5)


def decode(packed: Tensor, scale: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Exact values: packed [..., width / 2] and scale [..., width / 32], both uint8, to [..., width]."""
    pairs, powers = _tables(dtype, packed.device)
    values = pairs[packed.int()].flatten(-2).unflatten(-1, (-1, GROUP))  # [..., width / 32, 32]
    return (values * powers[scale.int()][..., None]).flatten(-2)


@lru_cache(maxsize=16)
def _tables(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """The two values of each byte [256, 2], and the power of two of each scale [256]."""
    signed = [*VALUES, *(-v for v in VALUES)]
    pairs = [(signed[low], signed[high]) for high in range(16) for low in range(16)]  # low nibble first
    powers = [2.0 ** (code - 127) for code in range(255)] + [float("nan")]
    return torch.tensor(pairs, dtype=dtype, device=device), torch.tensor(powers, dtype=dtype, device=device)


def encode(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest MXFP4 numbers, packed and their scales; what `decode` gave comes back unchanged."""
    if weight.shape[-1] % GROUP:
        raise ValueError(
            f"MXFP4 shares a scale among {GROUP} elements; a width of {weight.shape[-1]} has no whole groups"
        )
    groups = weight.to(torch.promote_types(weight.dtype, torch.float32)).unflatten(-1, (-1, GROUP))
    _, exponent = torch.frexp(groups.abs().amax(-1))  # the largest is in [2^(e-1), 2^e)
    power = (exponent - 3).clamp(-127, 127)  # so that it lands in [4, 8), where 6 is the top
    scaled = torch.ldexp(groups.double(), -power[..., None])  # exact
    size = scaled.abs()
    code = sum((size > tie).to(torch.uint8) for tie in _TIES_DOWN)
    code = code + sum((size >= tie).to(torch.uint8) for tie in _TIES_UP)
    code = (code | (scaled.signbit().to(torch.uint8) << 3)).flatten(-2)
    low, high = code.unflatten(-1, (-1, 2)).unbind(-1)
    return low | (high << 4), (power + 127).to(torch.uint8)

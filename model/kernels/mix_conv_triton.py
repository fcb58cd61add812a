"""Launches the Triton kernels of the depth mix and the short convolution."""

import torch
import triton
from torch import Tensor

from k3scope.model.kernels import mix_conv_triton_kernels as kernels
from k3scope.model.kernels.triton_setup import block, configuration


def mix(values: Tensor, query: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Same arguments and results as `reference.mix`."""
    *shape, candidates, d = values.shape
    flat = values.reshape(-1, candidates, d).contiguous()
    out, probs = flat.new_empty(len(flat), d), flat.new_empty(len(flat), candidates, dtype=torch.float32)
    tile, options = configuration("mix")
    sizes = {"D": d, "N": candidates, "BN": triton.next_power_of_2(candidates), "BD": tile}
    kernels.mix[(len(flat),)](flat, query.float().contiguous(), out, probs, eps, **sizes, **options)
    return out.view(*shape, d), probs.view(*shape, candidates)


def short_conv(x: Tensor, weight: Tensor, heads: int, eps: float | None) -> Tensor:
    """Same arguments and result as `reference.short_conv`."""
    (batch, steps, width), taps = x.shape, weight.shape[-1]
    dim = width // heads
    out = x.new_empty(batch, steps, heads, dim)
    tile, options = configuration("short_conv")
    sizes = {"H": heads, "K": dim, "TAPS": taps, "NORM": eps is not None, "BT": tile, "BK": block(dim)}
    grid = (triton.cdiv(steps, tile), batch * heads)
    kernels.short_conv[grid](x.contiguous(), weight.contiguous(), out, eps or 0.0, steps, **sizes, **options)
    return out

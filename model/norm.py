"""Root-mean-square and L2 normalisation."""

import torch
from torch import Tensor, nn


def widen(x: Tensor) -> Tensor:
    """At least float32: a float64 run stays float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class RMSNorm(nn.Module):
    """Divide by the root mean square of the last axis, then scale each channel."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = widen(x)
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return wide.to(x.dtype) * self.weight  # cast first, then scale, as the release does


class L2Norm(nn.Module):
    """Scale each head's vector to length one."""

    def __init__(self, eps: float):
        super().__init__()
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = widen(x)
        return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + self.eps)).to(x.dtype)

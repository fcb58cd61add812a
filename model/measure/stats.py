"""Statistics of tensors, and where the first number that is none appeared."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from model.trace import Trace


@dataclass(frozen=True)
class Statistics:
    """What one tensor holds, in a few numbers. `zeros` is the share of exact zeros."""

    shape: tuple[int, ...]
    mean: float
    std: float
    min: float
    max: float
    rms: float
    zeros: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.min) and math.isfinite(self.max)


def statistics(x: Tensor) -> Statistics:
    """Statistics of one floating tensor with at least one element."""
    return _unpack(x, _numbers(x).tolist())


@torch.no_grad()
def all_statistics(trace: Trace) -> dict[str, Statistics]:
    """Statistics of every point of a trace but the choices of experts, brought over in one transfer."""
    tensors = _tensors(trace)
    rows = torch.stack([_numbers(x) for x in tensors.values()]).tolist()
    return {path: _unpack(x, row) for (path, x), row in zip(tensors.items(), rows, strict=True)}


def first_bad(points: dict[str, Statistics]) -> str | None:
    """The first point, in the order of the forward pass, that holds NaN or infinity."""
    return next((path for path, s in points.items() if not s.finite), None)


def _tensors(trace: Trace) -> dict[str, Tensor]:
    values = {path: x for path, x in trace.values.items() if isinstance(x, Tensor) and x.numel()}
    return {path: x for path, x in values.items() if x.is_floating_point()}  # the mean of ids means nothing


def _numbers(x: Tensor) -> Tensor:
    low, high = x.aminmax()  # NaN anywhere makes both NaN
    variance, mean = torch.var_mean(x, correction=0)
    zeros = (x == 0).sum() / x.numel()
    return torch.stack([n.double() for n in (mean, variance, low, high, zeros)])


def _unpack(x: Tensor, row: list[float]) -> Statistics:
    mean, variance, low, high, zeros = row
    rms = math.sqrt(variance + mean * mean)
    return Statistics(tuple(x.shape), mean, math.sqrt(variance), low, high, rms, zeros)

"""Statistics of tensors, and where the first number that is none appeared."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from k3scope.model.kernels import statistics_cpp
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.tracing import Trace, real_numbers, trace
from k3scope.model.vision.tower import Images


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
    return _unpack(tuple(x.shape), _numbers(x).tolist())


class Tally:
    """Statistics of many tensors, added one by one and brought over in one transfer."""

    def __init__(self, real: Tensor | None = None):
        """`real` [B, T]: which tokens count; None for all."""
        self._rows: dict[str, tuple[tuple[int, ...], Tensor]] = {}
        self._real = real

    def add(self, path: str, value) -> None:
        """Count a tensor of numbers; anything else passes by (the mean of ids means nothing)."""
        if isinstance(value, Tensor) and value.numel() and value.is_floating_point():
            counted = value if self._real is None else real_numbers(path, value, self._real)
            self._rows[path] = (tuple(value.shape), _numbers(counted))

    def statistics(self) -> dict[str, Statistics]:
        """In the order in which they came."""
        if not self._rows:
            return {}
        rows = torch.stack([numbers for _, numbers in self._rows.values()]).tolist()
        shapes = [shape for shape, _ in self._rows.values()]
        return {path: _unpack(shape, row) for path, shape, row in zip(self._rows, shapes, rows, strict=True)}


def all_statistics(trace: Trace) -> dict[str, Statistics]:
    """Statistics of every hook point of a trace but the choices of experts."""
    tally = Tally(trace.real)
    for path, value in trace.values.items():
        tally.add(path, value)
    return tally.statistics()


def first_bad(points: dict[str, Statistics]) -> str | None:
    """The first hook point, in the order of the forward pass, that holds NaN or infinity."""
    return next((path for path, s in points.items() if not s.finite), None)


@torch.no_grad()
def first_bad_of(model: KimiK3, ids: Tensor, edits=None, images: Images | None = None) -> str | None:
    """`first_bad` of a pass that keeps nothing; for the arguments see `trace`."""
    tally = Tally()
    trace(model, ids, [], edits, images=images, on_output=tally.add)
    return first_bad(tally.statistics())


def _numbers(x: Tensor) -> Tensor:
    numbers = statistics_cpp.numbers(x) if statistics_cpp.serves(x) else None
    return _by_torch(x) if numbers is None else numbers


@torch.no_grad()
def _by_torch(x: Tensor) -> Tensor:
    low, high = x.aminmax()  # NaN anywhere makes both NaN
    variance, mean = torch.var_mean(x, correction=0)
    zeros = (x.numel() - torch.count_nonzero(x)) / x.numel()  # a comparison would cost twice the tensor
    return torch.stack([n.double() for n in (mean, variance, low, high, zeros)])


def _unpack(shape: tuple[int, ...], row: list[float]) -> Statistics:
    mean, variance, low, high, zeros = row
    rms = math.sqrt(variance + mean * mean)
    return Statistics(shape, mean, math.sqrt(variance), low, high, rms, zeros)

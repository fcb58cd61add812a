"""Inputs on which every path of the delta rule must agree with the float64 recurrence."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize


@dataclass(frozen=True)
class Case:
    """Sizes, and what is special: `decay` mixed, floor, retain or deep; `keys` random or parallel."""

    T: int
    H: int = 2
    K: int = 16
    V: int = 16
    B: int = 1
    decay: str = "mixed"
    keys: str = "random"
    state: bool = False

    def __str__(self) -> str:
        sizes = f"B{self.B}-T{self.T}-H{self.H}-K{self.K}-V{self.V}"
        return "-".join([sizes, self.decay, self.keys] + ["state"] * self.state)


EDGES = [Case(T, state=True) for T in (0, 1, 2, 3, 15, 16, 17, 63, 64, 65, 77)]
HARD = [
    Case(77, B=2, decay="floor"),
    Case(77, decay="retain", state=True),
    Case(77, decay="retain", keys="parallel"),
    Case(77, K=32, V=16, state=True),
    Case(40, K=16, V=32, B=2, state=True),
    Case(300, H=1, decay="retain", keys="parallel", state=True),
]
ODD = [Case(21, K=24, V=40, state=True), Case(20, K=5, V=3), Case(33, H=3, K=128, V=128)]


def inputs(case: Case, dtype=torch.float64) -> tuple[Tensor, ...]:
    """q, k, v, decay, write and the initial state or None; the same numbers for every dtype."""
    c, generator = case, torch.Generator().manual_seed(7)
    make = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    q = normalize(make(c.B, c.T, c.H, c.K), dim=-1) * c.K**-0.5
    k = make(c.B, c.T, c.H, c.K)
    if c.keys == "parallel":
        k = 0.01 * k + make(1, 1, c.H, c.K)
    k, v = normalize(k, dim=-1), make(c.B, c.T, c.H, c.V)
    decay = make(c.B, c.T, c.H, c.K)
    decay = {
        "mixed": -5 * (2 * decay).sigmoid(),
        "floor": torch.full_like(decay, -5.0),
        "retain": -1e-4 * decay.sigmoid(),
        "deep": -30 * decay.sigmoid(),
    }[c.decay]
    write = make(c.B, c.T, c.H).sigmoid()
    if c.keys == "parallel":
        write = 1 - 0.01 * write
    state = make(c.B, c.H, c.K, c.V) if c.state else None
    return tuple(t if t is None else t.float().to(dtype) for t in (q, k, v, decay, write, state))


def error(ours: Tensor, exact: Tensor) -> float:
    """Largest difference relative to the largest magnitude; infinite when NaN stands anywhere."""
    if exact.numel() == 0:
        return 0.0
    relative = ((ours.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30)).item()
    return relative if relative == relative else float("inf")

"""Several processes that train one model: they agree, add up counts and average gradients."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


@dataclass(frozen=True)
class Workers:
    """This process among `count`; with one alone nothing is exchanged."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def join(self, meeting: str) -> None:
        """Meet the other processes through the file `meeting`."""
        if self.count > 1:
            dist.init_process_group("gloo", f"file://{meeting}", rank=self.rank, world_size=self.count)

    def leave(self) -> None:
        if self.count > 1:
            dist.destroy_process_group()

    def agree(self, value: float) -> float:
        """The largest of the workers' values: their clocks differ."""
        if self.count == 1:
            return value
        shared = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(shared, dist.ReduceOp.MAX)
        return shared.item()

    def in_turn(self, work: Callable[[], T]) -> T:
        """What `work` returns; the others begin when the first has done what need be done only once."""
        if not self.first:
            self.agree(0)
        result = work()
        if self.first:
            self.agree(0)
        return result

    def add(self, tensors: list[Tensor]) -> None:
        """Sums over the workers, in place."""
        self._reduce(tensors, 1)

    def average(self, tensors: list[Tensor]) -> None:
        """Means over the workers, in place."""
        self._reduce(tensors, self.count)

    def _reduce(self, tensors: list[Tensor], divisor: int) -> None:
        if self.count == 1:
            return
        flat = torch.cat([t.flatten() for t in tensors])  # one exchange instead of hundreds
        dist.all_reduce(flat)
        if divisor > 1:
            flat /= divisor
        for t, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
            t.copy_(part.view_as(t))

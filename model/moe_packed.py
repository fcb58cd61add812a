"""Experts whose matrices are not at hand as numbers: packed as MXFP4, or still in the checkpoint's files."""

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor, nn

from k3scope.model.config import Config
from k3scope.model.kernels import mxfp4, ops

MATRICES = ("w1", "w3", "w2")


class ExpertsOnDemand(nn.Module):
    """Routed experts that come one at a time: only those that a pass chooses, gone when it is over."""

    def __init__(self, c: Config, read: Callable[[str, int], Tensor]):
        """`read(matrix, expert)` gives a matrix as numbers: w1 gate, w3 up, w2 down."""
        super().__init__()
        self.c = c
        self.read = read

    @property
    def bank(self) -> dict[str, tuple[int, int, int]]:
        """Shapes of the stacked matrices that this module stands for."""
        c = self.c
        width = c.latent or c.d
        up = (c.experts, c.expert_dim, width)
        return {"w1": up, "w3": up, "w2": (c.experts, width, c.expert_dim)}

    @property
    def parameters_stored(self) -> int:
        return sum(map(prod, self.bank.values()))

    def forward(self, z: Tensor, index: Tensor) -> Tensor:  # [B, T, latent], [B, T, top_k]
        c = self.c
        tokens, chosen = z.flatten(0, 1), index.flatten()
        out = z.new_empty(chosen.shape[0], z.shape[-1])
        for expert in chosen.unique().tolist():
            slots = (chosen == expert).nonzero(as_tuple=True)[0]
            w1, w3, w2 = (self.read(matrix, expert).to(z)[None] for matrix in MATRICES)
            first = torch.zeros_like(slots)[:, None]  # the one expert of these stacks
            rows = ops.experts(tokens[slots // index.shape[-1]], first, w1, w3, w2, c.gate_cap, c.up_cap)
            out[slots] = rows[:, 0]
        return out.view(*index.shape, -1)  # [B, T, top_k, latent]


class PackedExperts(ExpertsOnDemand):
    """Routed experts held in memory as MXFP4, a quarter of bfloat16, decoded when a token chooses them."""

    def __init__(self, c: Config):
        super().__init__(c, self._decoded)
        for matrix, (experts, rows, width) in self.bank.items():
            packed = torch.empty(experts, rows, width // 2, dtype=torch.uint8)
            scale = torch.empty(experts, rows, width // mxfp4.GROUP, dtype=torch.uint8)
            self.register_buffer(f"{matrix}_packed", packed)
            self.register_buffer(f"{matrix}_scale", scale)

    def forward(self, z: Tensor, index: Tensor) -> Tensor:  # [B, T, latent], [B, T, top_k]
        c = self.c
        packed = [getattr(self, f"{matrix}_packed") for matrix in MATRICES]
        scales = [getattr(self, f"{matrix}_scale") for matrix in MATRICES]
        rows = ops.experts_mxfp4(z.flatten(0, 1), index.flatten(0, 1), packed, scales, c.gate_cap, c.up_cap)
        return rows.unflatten(0, z.shape[:2])  # [B, T, top_k, latent]

    def stored(self, matrix: str, expert: int) -> tuple[Tensor, Tensor]:
        """Packed codes and scales, as the checkpoint has them."""
        return getattr(self, f"{matrix}_packed")[expert], getattr(self, f"{matrix}_scale")[expert]

    def _decoded(self, matrix: str, expert: int) -> Tensor:
        return mxfp4.decode(*self.stored(matrix, expert))

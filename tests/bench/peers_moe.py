"""A routed layer as others compute it: loops, one batch, groups, and the ways of transformers if installed.

Each function takes x [n, latent], index and weight [n, top_k], the stacks w1, w3, w2 and the two caps, and
returns a call without arguments that gives the weighted sum [n, latent].
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from peers import imported
from torch import Tensor
from torch.nn import functional as F

from k3scope.model.kernels.reference import combine, situ_glu

Call = Callable[[], Tensor]


def every_expert(x, index, weight, w1, w3, w2, gate_cap, up_cap) -> Call:
    """The base of the ratios: a loop over all experts, used or not."""

    def call():
        out = torch.zeros_like(x)
        for expert in range(w1.shape[0]):
            row, slot = (index == expert).nonzero(as_tuple=True)
            z = x[row]
            hidden = situ_glu(z @ w1[expert].T, z @ w3[expert].T, gate_cap, up_cap)
            out.index_add_(0, row, hidden @ w2[expert].T * weight[row, slot, None])
        return out

    return call


def batched_mm(x, index, weight, w1, w3, w2, gate_cap, up_cap) -> Call:
    """Gather the chosen experts' weights and multiply them in one batch."""

    def call():
        chosen = index.flatten()
        z = x.repeat_interleave(index.shape[1], 0)[:, :, None]
        hidden = situ_glu(torch.bmm(w1[chosen], z), torch.bmm(w3[chosen], z), gate_cap, up_cap)
        return combine(torch.bmm(w2[chosen], hidden).view(*index.shape, -1), weight)

    return call


def grouped_mm(x, index, weight, w1, w3, w2, gate_cap, up_cap) -> Call:
    """Sort the tokens by expert and multiply in groups."""

    def call():
        slots = index.flatten().argsort()
        ends = torch.bincount(index.flatten(), minlength=w1.shape[0]).cumsum(0).int()
        z = x[slots // index.shape[1]]
        gate, up = (F.grouped_mm(z, w.mT, offs=ends) for w in (w1, w3))
        out = F.grouped_mm(situ_glu(gate, up, gate_cap, up_cap), w2.mT, offs=ends)
        return combine(out[slots.argsort()].view(*index.shape, -1), weight)

    return call


def installed() -> dict[str, Callable[..., Call]]:
    """The three ways of transformers."""
    hf = imported("transformers.models.kimi_linear.modeling_kimi_linear")
    ways = ("eager", "batched_mm", "grouped_mm") if hf else ()
    return {f"transformers {way}": _transformers(hf.KimiLinearExperts, way) for way in ways}


def _transformers(experts: type, way: str) -> Callable[..., Call]:
    def peer(x, index, weight, w1, w3, w2, gate_cap, up_cap):
        count, width, latent = w1.shape
        sizes = {"num_local_experts": count, "hidden_size": latent, "moe_intermediate_size": width}
        with torch.device("meta"):
            layer = experts(SimpleNamespace(**sizes, hidden_act="silu", _experts_implementation=way))
        layer.gate_up_proj = torch.nn.Parameter(torch.cat([w1, w3], 1))
        layer.down_proj = torch.nn.Parameter(w2)
        layer.act_fn = _Gate(gate_cap, up_cap)
        return lambda: layer(x, index, weight)

    return peer


class _Gate(torch.nn.Module):
    """An activation that waits for the other factor: their `act_fn(gate) * up` becomes SiTU-GLU."""

    def __init__(self, *caps):
        super().__init__()
        self.caps = caps

    def forward(self, gate: Tensor) -> "_Half":
        return _Half(gate, self.caps)


@dataclass(frozen=True)
class _Half:
    gate: Tensor
    caps: tuple

    def __mul__(self, up: Tensor) -> Tensor:
        return situ_glu(self.gate, up, *self.caps)

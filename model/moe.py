"""LatentMoE: many small experts that work in a narrower latent space, and shared ones that see all."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from k3scope.model.config import Config
from k3scope.model.ffn import SituMLP
from k3scope.model.hooks import Probe
from k3scope.model.kernels import ops
from k3scope.model.norm import RMSNorm, widen


class Router(nn.Module):
    """Score every expert for each token and keep the best top_k."""

    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.weight = nn.Parameter(torch.empty(c.experts, c.d))
        self.e_score_correction_bias = nn.Parameter(torch.empty(c.experts))
        self.scores = Probe()
        self.topk_idx = Probe()
        self.topk_weight = Probe()
        self.margin = Probe()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # [B, T, d]
        c = self.c
        scores = self.scores(F.linear(widen(x), widen(self.weight)).sigmoid())  # [B, T, experts]
        biased = scores + self.e_score_correction_bias  # the bias chooses, it does not weigh
        best = biased.topk(c.top_k + 1, -1)
        margin = best.values[..., -2] - best.values[..., -1]  # how safe the cut is
        # NaN and infinity sort first: a choice among scores that are no numbers would look like any other
        bad = best.values.isnan() | best.values.isposinf()  # minus infinity switches an expert off
        self.margin(margin.masked_fill(bad.any(-1), torch.nan))
        index = self.topk_idx(best.indices[..., : c.top_k])  # [B, T, top_k]
        weight = scores.gather(-1, index)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * c.routed_scale
        return index, self.topk_weight(weight)


class Experts(nn.Module):
    """All routed experts of a layer, their matrices stacked: w1 gate, w3 up, w2 down."""

    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        width = c.latent or c.d
        self.w1 = nn.Parameter(torch.empty(c.experts, c.expert_dim, width))
        self.w3 = nn.Parameter(torch.empty(c.experts, c.expert_dim, width))
        self.w2 = nn.Parameter(torch.empty(c.experts, width, c.expert_dim))

    def forward(self, z: Tensor, index: Tensor) -> Tensor:  # [B, T, latent], [B, T, top_k]
        c = self.c
        out = ops.experts(
            z.flatten(0, 1), index.flatten(0, 1), self.w1, self.w3, self.w2, c.gate_cap, c.up_cap
        )
        return out.unflatten(0, z.shape[:2])  # [B, T, top_k, latent]


class Combine(nn.Module):
    """Add up the chosen experts' outputs by their weights, in float32."""

    def forward(self, routed: Tensor, weight: Tensor) -> Tensor:
        return ops.combine(routed, weight)  # [B, T, latent]


class LatentMoE(nn.Module):
    """Routed experts on a compressed token, plus shared experts that always run."""

    def __init__(self, c: Config):
        super().__init__()
        self.gate = Router(c)
        self.routed_expert_down_proj = nn.Linear(c.d, c.latent, bias=False)
        self.experts = Experts(c)
        self.combine = Combine()
        self.routed_expert_norm = RMSNorm(c.latent, c.eps)
        self.routed_expert_up_proj = nn.Linear(c.latent, c.d, bias=False)
        self.shared_experts = SituMLP(c, c.shared_experts * c.expert_dim) if c.shared_experts else None

    def forward(self, x: Tensor) -> Tensor:  # [B, T, d]
        index, weight = self.gate(x)  # the router reads the full width
        z = self.routed_expert_down_proj(x)  # [B, T, latent]
        combined = self.combine(self.experts(z, index), weight)
        routed = self.routed_expert_up_proj(self.routed_expert_norm(combined))
        return routed + self.shared_experts(x) if self.shared_experts else routed

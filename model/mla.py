"""Gated multi-head latent attention without positions (NoPE)."""

import torch
from torch import Tensor, nn

from model.config import Config
from model.norm import RMSNorm, widen
from model.tracing import Probe


class CausalAttention(nn.Module):
    """Softmax attention over the past; part of each key is one vector shared by all heads."""

    def __init__(self):
        super().__init__()
        self.probs = Probe()

    def forward(self, q: Tensor, k: Tensor, shared_key: Tensor, v: Tensor) -> Tensor:
        """Read the values of earlier tokens.

        q [B, T, heads, nope_dim + shared_key_dim], k [B, T, heads, nope_dim],
        shared_key [B, T, shared_key_dim], v and the result [B, T, heads, v_dim].
        """
        shared = shared_key[:, :, None, :].expand(*k.shape[:3], -1)
        key = torch.cat([k, shared], -1)
        score = q.transpose(1, 2) @ key.permute(0, 2, 3, 1) * q.shape[-1] ** -0.5  # [B, heads, T, T]
        future = torch.ones(score.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        score = widen(score).masked_fill(future, -torch.inf)
        probs = self.probs(score.softmax(-1).to(q.dtype))
        return (probs @ v.transpose(1, 2)).transpose(1, 2)


class GatedMLA(nn.Module):
    """Full attention through low-rank latents, without rotary positions, with an output gate."""

    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.q_a_proj = nn.Linear(c.d, c.q_rank, bias=False)
        self.q_a_layernorm = RMSNorm(c.q_rank, c.latent_eps)
        self.q_b_proj = nn.Linear(c.q_rank, c.heads * (c.nope_dim + c.shared_key_dim), bias=False)
        self.kv_a_proj_with_mqa = nn.Linear(c.d, c.kv_rank + c.shared_key_dim, bias=False)
        self.shared_key = Probe()
        self.kv_a_layernorm = RMSNorm(c.kv_rank, c.latent_eps)
        self.kv_b_proj = nn.Linear(c.kv_rank, c.heads * (c.nope_dim + c.v_dim), bias=False)
        self.attention = CausalAttention()
        self.g_proj = nn.Linear(c.d, c.heads * c.v_dim, bias=False)
        self.gate = Probe()
        self.gated = Probe()
        self.o_proj = nn.Linear(c.heads * c.v_dim, c.d, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, T, d]
        c = self.c
        q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))
        q = q.unflatten(-1, (c.heads, c.nope_dim + c.shared_key_dim))

        latent, shared_key = self.kv_a_proj_with_mqa(x).split([c.kv_rank, c.shared_key_dim], -1)
        shared_key = self.shared_key(shared_key)  # not normalised, not rotated: one key for all heads
        kv = self.kv_b_proj(self.kv_a_layernorm(latent))
        kv = kv.unflatten(-1, (c.heads, c.nope_dim + c.v_dim))  # per head: key, then value
        k, v = kv.split([c.nope_dim, c.v_dim], -1)

        out = self.attention(q, k, shared_key, v).flatten(-2)  # [B, T, heads * v_dim]
        gate = self.gate(self.g_proj(x).sigmoid())
        return self.o_proj(self.gated(out * gate))

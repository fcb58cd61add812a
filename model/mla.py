"""Gated multi-head latent attention without positions (NoPE)."""

import torch
from torch import Tensor, nn

from k3scope.model.cache import LayerCache
from k3scope.model.config import Config
from k3scope.model.hooks import Probe
from k3scope.model.norm import RMSNorm, widen


class CausalAttention(nn.Module):
    """Softmax attention over the past; part of each key is one vector shared by all heads."""

    def __init__(self):
        super().__init__()
        self.probs = Probe()

    def forward(
        self, q: Tensor, k: Tensor, shared_key: Tensor, v: Tensor, real: Tensor | None = None
    ) -> Tensor:
        """Read the values of earlier tokens; the last T of the S keys are those of the queries.

        q [B, T, heads, nope_dim + shared_key_dim], k [B, S, heads, nope_dim],
        shared_key [B, S, shared_key_dim], v [B, S, heads, v_dim]; returns [B, T, heads, v_dim].
        """
        shared = shared_key[:, :, None, :].expand(*k.shape[:3], -1)
        key = torch.cat([k, shared], -1)
        q = q * q.shape[-1] ** -0.5
        score = widen(q.transpose(1, 2) @ key.permute(0, 2, 3, 1))  # [B, heads, T, S]
        score += mask(q.shape[1], key.shape[1], real, score)
        probs = self.probs(score.softmax(-1).to(q.dtype))
        return (probs @ v.transpose(1, 2)).transpose(1, 2)


def mask(queries: int, keys: int, real: Tensor | None, like: Tensor) -> Tensor:
    """Minus infinity where a query must not look, else 0: the future, and padding other than itself."""
    own = torch.arange(keys - queries, keys, device=like.device)[:, None]
    at = torch.arange(keys, device=like.device)[None, :]
    hidden = at > own  # [T, S]
    if real is not None:
        hidden = hidden | (~real[:, None, None, :] & (at != own))  # [B, 1, T, S]
    return torch.zeros_like(hidden, dtype=like.dtype).masked_fill(hidden, -torch.inf)


class GatedMLA(nn.Module):
    """Full attention through low-rank latents, without rotary positions, with an output gate."""

    def __init__(self, c: Config):
        super().__init__()
        self.q_a_proj = nn.Linear(c.d, c.q_rank, bias=False)
        self.q_a_layernorm = RMSNorm(c.q_rank, c.latent_eps)
        self.q_b_proj = nn.Linear(c.q_rank, c.heads * (c.nope_dim + c.shared_key_dim), bias=False)
        self.add_keys(c)
        self.g_proj = nn.Linear(c.d, c.heads * c.v_dim, bias=False)
        self.gate = Probe()
        self.gated = Probe()

    def add_keys(self, c: Config) -> None:
        """Keys, values, attention and output: the part that every MLA has."""
        self.c = c
        self.kv_a_proj_with_mqa = nn.Linear(c.d, c.kv_rank + c.shared_key_dim, bias=False)
        self.shared_key = Probe()
        self.kv_a_layernorm = RMSNorm(c.kv_rank, c.latent_eps)
        self.kv_b_proj = nn.Linear(c.kv_rank, c.heads * (c.nope_dim + c.v_dim), bias=False)
        self.attention = CausalAttention()
        self.o_proj = nn.Linear(c.heads * c.v_dim, c.d, bias=False)

    def forward(self, x: Tensor, past: LayerCache) -> Tensor:  # [B, T, d]
        c = self.c
        q = self.query(x).unflatten(-1, (c.heads, c.nope_dim + c.shared_key_dim))

        # the cache holds this and nothing more: kv_rank + shared_key_dim numbers per token
        latent = past.with_past_latents(self.kv_a_proj_with_mqa(x))
        latent, shared_key = latent.split([c.kv_rank, c.shared_key_dim], -1)
        shared_key = self.shared_key(shared_key)  # not normalised, not rotated: one key for all heads
        kv = self.kv_b_proj(self.kv_a_layernorm(latent))
        kv = kv.unflatten(-1, (c.heads, c.nope_dim + c.v_dim))  # per head: key, then value
        k, v = kv.split([c.nope_dim, c.v_dim], -1)

        out = self.attention(q, k, shared_key, v, past.real)
        return self.output(out.flatten(-2), x)  # [B, T, d]

    def query(self, x: Tensor) -> Tensor:
        return self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x)))

    def output(self, out: Tensor, x: Tensor) -> Tensor:
        """Scale each value channel by a gate from the layer input, then project."""
        gate = self.gate(self.g_proj(x).sigmoid())  # [B, T, heads * v_dim]
        return self.o_proj(self.gated(out * gate))

"""Kimi Delta Attention: linear attention whose memory forgets per channel and corrects what it stored."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from k3scope.model.cache import LayerCache
from k3scope.model.config import Config
from k3scope.model.hooks import Probe
from k3scope.model.kernels import ops
from k3scope.model.norm import L2Norm, RMSNorm, widen


class ShortConvolution(nn.Module):
    """Let each channel see its last few tokens: depthwise causal convolution, then SiLU."""

    def __init__(self, width: int, kernel: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, 1, kernel))

    def forward(self, x: Tensor, in_order: Callable[[Tensor], Tensor]) -> Tensor:
        """x [B, kernel - 1 + T, width], past inputs first; returns [B, T, width], put `in_order`."""
        y = F.conv1d(x.transpose(1, 2), self.weight.to(x.dtype), groups=x.shape[-1])
        return in_order(F.silu(y).transpose(1, 2))


class DeltaRule(nn.Module):
    """Forget, predict, correct and read a matrix memory, token by token."""

    def __init__(self):
        super().__init__()
        self.out = Probe()
        self.state = Probe()

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, write: Tensor, past: LayerCache
    ) -> Tensor:
        q = q * q.shape[-1] ** -0.5
        out, state = ops.kda(q, k, v, decay, write, past.state)
        past.state = self.state(state)  # [B, kda_heads, kda_head_dim (key), kda_head_dim (value)]
        return self.out(out)  # [B, T, kda_heads, kda_head_dim]


class KimiDeltaAttention(nn.Module):
    """Linear attention: a fixed-size memory that decays per channel, written by the delta rule."""

    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        width = c.kda_heads * c.kda_head_dim
        self.q_proj = nn.Linear(c.d, width, bias=False)
        self.k_proj = nn.Linear(c.d, width, bias=False)
        self.v_proj = nn.Linear(c.d, width, bias=False)
        self.q_conv1d = ShortConvolution(width, c.conv)
        self.k_conv1d = ShortConvolution(width, c.conv)
        self.v_conv1d = ShortConvolution(width, c.conv)
        self.q_l2norm = L2Norm(c.l2_eps)
        self.k_l2norm = L2Norm(c.l2_eps)
        self.f_a_proj = nn.Linear(c.d, c.kda_head_dim, bias=False)
        self.f_b_proj = nn.Linear(c.kda_head_dim, width, bias=False)
        self.A_log = nn.Parameter(torch.empty(c.a_log_stored))
        self.dt_bias = nn.Parameter(torch.empty(width))
        self.decay = Probe()
        self.b_proj = nn.Linear(c.d, c.kda_heads, bias=False)
        self.write = Probe()
        self.delta_rule = DeltaRule()
        self.o_norm = RMSNorm(c.kda_head_dim, c.eps)
        self.g_proj = nn.Linear(c.d, width, bias=False)
        self.gate = Probe()
        self.gated = Probe()
        self.o_proj = nn.Linear(width, c.d, bias=False)

    def forward(self, x: Tensor, past: LayerCache) -> Tensor:  # [B, T, d]
        q, k, v = self.short_convolved(x, past)  # each [B, T, kda_heads, kda_head_dim]
        q, k = self.q_l2norm(q), self.k_l2norm(k)

        # padding neither forgets nor writes
        decay = self.decay(past.zero_padding(self.log_decay(self.f_b_proj(self.f_a_proj(x)))))
        write = self.write(past.zero_padding(widen(self.b_proj(x)).sigmoid()))  # [B, T, kda_heads]
        out = self.delta_rule(q, k, v, decay, write, past)

        gate = self.gate(widen(self.output_gate(x)).sigmoid().view(out.shape))
        gated = self.gated((self.o_norm(out) * gate).to(x.dtype))
        return self.o_proj(gated.flatten(-2))  # [B, T, d]

    def short_convolved(self, x: Tensor, past: LayerCache) -> list[Tensor]:
        """Queries, keys and values after their convolutions, split into heads."""
        c = self.c
        mixed = []
        for name, proj, conv in (
            ("q", self.q_proj, self.q_conv1d),
            ("k", self.k_proj, self.k_conv1d),
            ("v", self.v_proj, self.v_conv1d),
        ):
            inputs = past.with_past_inputs(name, proj(x), c.conv - 1)
            mixed.append(conv(inputs, past.in_order).unflatten(-1, (c.kda_heads, c.kda_head_dim)))
        return mixed

    def output_gate(self, x: Tensor) -> Tensor:
        return self.g_proj(x)

    def log_decay(self, z: Tensor) -> Tensor:
        """Log of the share each key channel keeps: [B, T, kda_heads, kda_head_dim]."""
        c = self.c
        # A_log may be stored longer than the head count: the tail is padding
        speed = widen(self.A_log[: c.kda_heads]).exp()[:, None]
        z = (widen(z) + widen(self.dt_bias)).unflatten(-1, (c.kda_heads, c.kda_head_dim))
        if c.decay_floor is None:
            return -speed * F.softplus(z)
        return c.decay_floor * (speed * z).sigmoid()  # in (decay_floor, 0)

"""The operators in plain PyTorch, written to be read; every faster path is checked against these."""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F


def kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    write: Tensor,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Gated delta rule, one token at a time.

    q, k, decay [B, T, H, K]; v [B, T, H, V]; write [B, T, H]; decay is the logarithm, <= 0.
    initial_state [N, H, K, V]; cu_seqlens [N + 1] bounds of N sequences packed into one row (then B = 1).
    Returns the read-out [B, T, H, V] and the final state [N, H, K, V] (N = B without cu_seqlens).
    """
    if cu_seqlens is not None:
        return _packed(q, k, v, decay, write, initial_state, cu_seqlens)
    batch, steps, heads, key_dim = q.shape
    wide = torch.promote_types(q.dtype, torch.float32)
    state = q.new_zeros(batch, heads, key_dim, v.shape[-1], dtype=wide)
    if initial_state is not None:
        state = state + initial_state
    q, k, v_wide, alpha, beta = (t.to(wide) for t in (q, k, v, decay.exp(), write))
    outputs = []
    for t in range(steps):
        state = alpha[:, t, :, :, None] * state  # forget: scales key rows
        predicted = torch.einsum("bhk,bhkv->bhv", k[:, t], state)  # what the decayed memory holds for k
        error = v_wide[:, t] - predicted
        state = state + (beta[:, t, :, None] * k[:, t])[..., None] * error[:, :, None, :]
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    out = torch.stack(outputs, 1) if outputs else v.new_empty(v.shape)
    return out.to(v.dtype), state


def _packed(q, k, v, decay, write, initial_state, cu_seqlens):
    outputs, states = [], []
    bounds = cu_seqlens.tolist()
    for n, (start, stop) in enumerate(pairwise(bounds)):
        part = [t[:, start:stop] for t in (q, k, v, decay, write)]
        first = None if initial_state is None else initial_state[n : n + 1]
        out, state = kda(*part, first)
        outputs.append(out)
        states.append(state)
    return torch.cat(outputs, 1), torch.cat(states, 0)


def situ_glu(gate: Tensor, up: Tensor, gate_cap: float | None, up_cap: float | None) -> Tensor:
    """SiTU-GLU: SiLU with its linear part capped by tanh, times a capped linear part; shape unchanged.

    With no caps (None) this is SwiGLU, as in Kimi-Linear.
    """
    wide = torch.promote_types(gate.dtype, torch.float32)
    g, u = gate.to(wide), up.to(wide)
    act = _cap(g, gate_cap) * torch.sigmoid(g) * _cap(u, up_cap)
    return act.to(gate.dtype)


def _cap(x: Tensor, cap: float | None) -> Tensor:
    return x if cap is None else cap * torch.tanh(x / cap)


def experts(
    x: Tensor, index: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, gate_cap: float | None, up_cap: float | None
) -> Tensor:
    """Run each token through its chosen experts.

    x [N, latent]; index [N, top_k]; w1, w3 [experts, expert_dim, latent]; w2 [experts, latent, expert_dim].
    Returns [N, top_k, latent], not yet weighted.
    """
    flat, rows, slots = index.flatten(), [], []
    for expert in flat.unique().tolist():
        slot = (flat == expert).nonzero(as_tuple=True)[0]
        z = x[slot // index.shape[1]]
        rows.append(situ_glu(z @ w1[expert].T, z @ w3[expert].T, gate_cap, up_cap) @ w2[expert].T)
        slots.append(slot)
    if not rows:
        return x.new_zeros(*index.shape, x.shape[-1])
    return torch.cat(rows)[torch.cat(slots).argsort()].view(*index.shape, x.shape[-1])


def route(
    logits: Tensor, bias: Tensor, top_k: int, routed_scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Choose `top_k` experts: scores [.., experts], index and weight [.., top_k], margin of the cut [..]."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    scores = logits.to(wide).sigmoid()
    best = (scores + bias).topk(top_k + 1, -1)  # the bias chooses, it does not weigh
    index = best.indices[..., :top_k]
    weight = scores.gather(-1, index)
    weight = weight / (weight.sum(-1, keepdim=True) + 1e-20) * routed_scale
    return scores, index, weight, best.values[..., -2] - best.values[..., -1]


def combine(routed: Tensor, weight: Tensor) -> Tensor:
    """routed [.., top_k, latent], weight [.., top_k] -> weighted sum [.., latent], added in float32."""
    wide = routed.to(torch.promote_types(routed.dtype, torch.float32))
    return (wide * weight[..., None]).sum(-2).to(routed.dtype)


def mix(values: Tensor, query: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Softmax over depth: values [.., candidates, d], query [d] -> blend [.., d], probs [.., candidates]."""
    wide = values.to(torch.promote_types(values.dtype, torch.float32))
    keys = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    probs = (keys * query).sum(-1).softmax(-1)
    return (probs[..., None] * wide).sum(-2).to(values.dtype), probs


def short_conv(x: Tensor, weight: Tensor, heads: int, eps: float | None) -> Tensor:
    """Causal depthwise convolution, SiLU and, with `eps`, unit length per head.

    x [B, T, width], weight [width, 1, taps]; the last tap meets the current token. Result [B, T, heads, dim].
    """
    width, _, taps = weight.shape
    past = F.pad(x.transpose(1, 2), (taps - 1, 0))
    y = F.silu(F.conv1d(past, weight.to(x.dtype), groups=width)).transpose(1, 2).unflatten(-1, (heads, -1))
    if eps is None:
        return y
    wide = y.to(torch.promote_types(y.dtype, torch.float32))
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + eps)).to(y.dtype)

"""The operators in plain PyTorch, written to be read; every faster path is checked against these."""

from itertools import pairwise

import torch
from torch import Tensor


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
        predicted = torch.einsum("bhk,bhkv->bhv", k[:, t], state)  # what the decayed memory says for k
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

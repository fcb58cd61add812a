"""Other ways to compute the same, from textbook loops to the libraries that are installed."""

import importlib
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from model.kernels.reference import situ_glu


def naive_kda(q, k, v, decay, write) -> tuple[Tensor, Tensor]:
    """The base of all ratios: a loop with the operations of fla's `naive_recurrent_kda`."""
    state = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[-1])
    out = torch.zeros_like(v)
    for t in range(q.shape[1]):
        state = state * decay[:, t, :, :, None].exp()
        error = v[:, t] - (k[:, t, :, :, None] * state).sum(-2)
        state = state + torch.einsum("bhk,bhv->bhkv", write[:, t, :, None] * k[:, t], error)
        out[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], state)
    return out, state


def lean_kda(q, k, v, decay, write) -> tuple[Tensor, Tensor]:
    """The same loop as lean as torch allows: batched products in place."""
    (batch, steps, heads, key_dim), width = q.shape, v.shape[-1]
    fold = lambda x: x.transpose(1, 2).flatten(0, 1)  # noqa: E731
    q, k, v, kept, write = fold(q), fold(k), fold(v), fold(decay).exp(), fold(write)
    state, outs = q.new_zeros(batch * heads, key_dim, width), []
    for t in range(steps):
        state.mul_(kept[:, t, :, None])
        error = write[:, t, None, None] * (v[:, t, None] - torch.bmm(k[:, t, None], state))
        state.baddbmm_(k[:, t, :, None], error)
        outs.append(torch.bmm(q[:, t, None], state))
    out = torch.cat(outs, 1).view(batch, heads, steps, width).transpose(1, 2)
    return out, state.view(batch, heads, key_dim, width)


def installed_kda() -> dict[str, Callable]:
    """The delta rules of libraries on this machine; they scale q themselves."""
    found = {}
    if fla := _try("fla.ops.kda.naive"):
        for name in ("naive_recurrent_kda", "naive_chunk_kda"):
            found["fla " + name] = _unscaled(getattr(fla, name))
    if hf := _try("transformers.models.kimi_linear.modeling_kimi_linear"):
        for name in ("recurrent_kimi_delta_attention", "chunk_kimi_delta_attention"):
            found["transformers " + name.split("_")[0]] = _unscaled(getattr(hf, name), initial_state=None)
    return found


def _unscaled(function: Callable, **more) -> Callable:
    def call(q, k, v, decay, write):
        return function(q * q.shape[-1] ** 0.5, k, v, decay, write, output_final_state=True, **more)

    return call


def _try(module: str):
    try:
        return importlib.import_module(module)
    except Exception:  # a library that is there but does not import is as good as absent
        return None


def every_expert(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    """The base of the experts' ratios: a loop over all experts, used or not."""
    out = x.new_zeros(*index.shape, x.shape[-1])
    for expert in range(w1.shape[0]):
        row, slot = (index == expert).nonzero(as_tuple=True)
        z = x[row]
        hidden = situ_glu(z @ w1[expert].T, z @ w3[expert].T, gate_cap, up_cap)
        out[row, slot] = hidden @ w2[expert].T
    return out


def batched_mm(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    """Gather the chosen experts' weights and multiply them in one batch."""
    chosen = index.flatten()
    z = x.repeat_interleave(index.shape[1], 0)[:, :, None]
    hidden = situ_glu(torch.bmm(w1[chosen], z), torch.bmm(w3[chosen], z), gate_cap, up_cap)
    return torch.bmm(w2[chosen], hidden).view(*index.shape, -1)


def grouped_mm(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    """Sort the tokens by expert and multiply in groups."""
    slots = index.flatten().argsort()
    ends = torch.bincount(index.flatten(), minlength=w1.shape[0]).cumsum(0).int()
    z = x[slots // index.shape[1]]
    gate, up = (F.grouped_mm(z, w.mT, offs=ends) for w in (w1, w3))
    out = F.grouped_mm(situ_glu(gate, up, gate_cap, up_cap), w2.mT, offs=ends)
    return out[slots.argsort()].view(*index.shape, -1)

"""The delta rule as others compute it: textbook loops, and the libraries that are installed.

Each function takes q (scaled), k, v, decay, write of one batch and returns a call without arguments, so that
no conversion is part of the time. A call returns the read-out [B, T, H, V] and the state [B, H, K, V].
"""

import importlib
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

Call = Callable[[], tuple[Tensor, Tensor]]


def loop(q, k, v, decay, write) -> Call:
    """A copy of fla's `naive_recurrent_kda`, for machines without fla: the same operations."""

    def call():
        state, out = q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[-1]), torch.zeros_like(v)
        for t in range(q.shape[1]):
            state = state * decay[:, t, :, :, None].exp()
            error = v[:, t] - (k[:, t, :, :, None] * state).sum(-2)
            state = state + torch.einsum("bhk,bhv->bhkv", write[:, t, :, None] * k[:, t], error)
            out[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], state)
        return out, state

    return call


def lean_loop(q, k, v, decay, write) -> Call:
    """The same loop as lean as torch allows: batched products in place."""
    (batch, steps, heads, key_dim), width = q.shape, v.shape[-1]
    fold = lambda x: x.transpose(1, 2).flatten(0, 1)  # noqa: E731

    def call():
        rows, keys, wanted, kept, beta = fold(q), fold(k), fold(v), fold(decay).exp(), fold(write)
        state, outs = q.new_zeros(batch * heads, key_dim, width), []
        for t in range(steps):
            state.mul_(kept[:, t, :, None])
            error = beta[:, t, None, None] * (wanted[:, t, None] - torch.bmm(keys[:, t, None], state))
            state.baddbmm_(keys[:, t, :, None], error)
            outs.append(torch.bmm(rows[:, t, None], state))
        out = torch.cat(outs, 1).view(batch, heads, steps, width).transpose(1, 2)
        return out, state.view(batch, heads, key_dim, width)

    return call


def base() -> tuple[str, Callable[..., Call]]:
    """What every ratio is to: fla's own loop where it is installed, else the copy of it; and its name."""
    if fla := imported("fla.ops.kda.naive"):
        return f"fla {_version('fla')} naive_recurrent_kda", _torch_peer(fla.naive_recurrent_kda)
    return "own copy of fla's naive_recurrent_kda", loop


def installed() -> dict[str, Callable[..., Call]]:
    """The other delta rules of libraries on this machine."""
    found = {}
    if fla := imported("fla.ops.kda.naive"):
        found["fla naive_chunk_kda"] = _torch_peer(fla.naive_chunk_kda)
    if hf := imported("transformers.models.kimi_linear.modeling_kimi_linear"):
        for way in ("recurrent", "chunk"):
            function = getattr(hf, f"{way}_kimi_delta_attention")
            function = getattr(function, "__wrapped__", function)  # its own fallback, not fla for a GPU
            found[f"transformers {way}"] = _torch_peer(function, initial_state=None)
    if imported("mlx_lm.models.gated_delta"):
        found["mlx-lm"] = _mlx
    return found


def _torch_peer(function: Callable, **more) -> Callable[..., Call]:
    """These scale q themselves."""

    def peer(q, k, v, decay, write):
        unscaled = q * q.shape[-1] ** 0.5
        return lambda: function(unscaled, k, v, decay, write, output_final_state=True, **more)

    return peer


def _mlx(q, k, v, decay, write) -> Call:
    """mlx-lm on its CPU device: what it takes when there is no GPU of its kind."""
    mx, gated_delta = imported("mlx.core"), imported("mlx_lm.models.gated_delta")
    mx.set_default_device(mx.cpu)
    inputs = [mx.array(t.numpy()) for t in (q, k, v, decay.exp(), write)]

    def call():
        out, state = gated_delta.gated_delta_ops(*inputs)
        mx.eval(out, state)
        return out, state

    def as_torch():
        out, state = (torch.from_numpy(np.array(t)) for t in call())
        return out, state.mT

    call.result, call.forks = as_torch, False  # its threads do not survive a fork
    return call


def imported(module: str):
    """The module, or None: a library that is there but does not import is as good as absent."""
    try:
        return importlib.import_module(module)
    except Exception:
        return None


def _version(package: str) -> str:
    return getattr(imported(package), "__version__", "")

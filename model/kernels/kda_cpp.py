"""The gated delta rule through `kda.cpp`: the fast way on a CPU, in float32 and without gradients."""

import ctypes
from functools import cache

import torch
from torch import Tensor

from k3scope.model.kernels import native


@cache
def _function():
    function = native.library("kda").k3scope_kda
    function.argtypes = [ctypes.c_void_p] * 8 + [ctypes.c_int64] * 5
    function.restype = None
    return function


@cache
def _most_channels() -> int:
    return native.library("kda").k3scope_kda_channels()


def serves(q: Tensor) -> bool:
    """Whether this path computes `kda` for inputs like q: float32 on a CPU, with a built library."""
    return (
        q.device.type == "cpu"
        and q.dtype == torch.float32
        and native.library("kda") is not None
        and q.shape[-1] <= _most_channels()
    )


def kda(q, k, v, decay, write, initial_state=None, cu_seqlens=None) -> tuple[Tensor, Tensor]:
    """Same arguments and results as `reference.kda`."""
    batch, steps, heads, key_dim = q.shape
    bounds = torch.arange(batch + 1) * steps if cu_seqlens is None else cu_seqlens.to("cpu", torch.int64)
    shape = (len(bounds) - 1, heads, key_dim, v.shape[-1])
    state = q.new_zeros(shape) if initial_state is None else initial_state.float().clone()
    # contiguous float32 whatever came in; the names keep the copies alive during the call
    inputs = [t.float().contiguous() for t in (q, k, v, decay, write)]
    state, out, bounds = state.contiguous(), torch.empty_like(inputs[2]), bounds.contiguous()
    pointers = [t.data_ptr() for t in (*inputs, state, out, bounds)]
    _function()(*pointers, *shape, torch.get_num_threads())
    return out, state

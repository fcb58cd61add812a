"""The chosen experts through `experts.cpp`: float32 on a CPU, without gradients."""

import ctypes
from functools import cache

import torch
from torch import Tensor

from k3scope.model.kernels import native
from k3scope.model.kernels.experts_torch import by_expert


@cache
def _function():
    function = native.library("experts").k3scope_experts
    function.argtypes = [
        *[ctypes.c_void_p] * 7,
        *[ctypes.c_int64] * 4,
        *[ctypes.c_float] * 2,
        ctypes.c_int64,
    ]
    function.restype = None
    return function


def serves(x: Tensor) -> bool:
    """Whether this path computes `experts` for inputs like x."""
    return x.device.type == "cpu" and x.dtype == torch.float32 and native.library("experts") is not None


def experts(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    """Same arguments and result as `reference.experts`."""
    count, width, latent = w1.shape
    slots, counts = by_expert(index, count)
    ends = counts.cumsum(0)
    inputs = [t.float().contiguous() for t in (x, w1, w3, w2)]
    out = x.new_empty(*index.shape, latent)
    pointers = [t.data_ptr() for t in (*inputs, out, slots, ends)]
    sizes = (index.shape[-1], count, latent, width)
    _function()(*pointers, *sizes, gate_cap or 0.0, up_cap or 0.0, torch.get_num_threads())
    return out

"""The chosen experts in torch: one at a time for few tokens, sorted and grouped for many."""

import torch
from torch import Tensor
from torch.nn import functional as F

from k3scope.model.kernels import mxfp4
from k3scope.model.kernels.reference import situ_glu


def experts(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    """Same arguments and result as `reference.experts`."""
    if index.numel() == 0:
        return x.new_zeros(*index.shape, x.shape[-1])
    if index.numel() <= max(4, w1.shape[0] // 14):  # measured: a grouped product looks at every expert
        return _each(x, index, w1, w3, w2, gate_cap, up_cap)
    slots, counts = by_expert(index, w1.shape[0])
    rows = x[slots // index.shape[1]]
    if _groupable(x, w1, w2):
        out = _grouped(rows, counts, w1, w3, w2, gate_cap, up_cap)
    else:
        out = _sliced(rows, counts, w1, w3, w2, gate_cap, up_cap)
    return out[slots.argsort()].view(*index.shape, -1)


def experts_mxfp4(x, index, packed, scales, gate_cap, up_cap) -> Tensor:
    """The same from packed weights (w1, w3, w2) and their scales; an expert is unpacked when it is used."""
    out = x.new_zeros(index.numel(), x.shape[-1])
    slots, counts = by_expert(index, packed[0].shape[0])
    for expert, slot in enumerate(slots.split(counts.tolist())):
        if len(slot):
            w1, w3, w2 = (
                mxfp4.decode(w[expert], s[expert], x.dtype) for w, s in zip(packed, scales, strict=True)
            )
            out[slot] = _one(x[slot // index.shape[1]], w1, w3, w2, gate_cap, up_cap)
    return out.view(*index.shape, -1)


def by_expert(index: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Slots of the flattened index sorted by expert, and how many each has. IndexError outside 0..count."""
    flat = index.flatten()
    counts = torch.bincount(flat, minlength=count)
    if len(counts) > count:
        raise IndexError(f"an expert of index {len(counts) - 1} was chosen; there are {count}")
    return flat.argsort(stable=True), counts


def _one(rows, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    return situ_glu(rows @ w1.T, rows @ w3.T, gate_cap, up_cap) @ w2.T


def _each(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    chosen = index.tolist()
    out = [
        _one(row, w1[e], w3[e], w2[e], gate_cap, up_cap)
        for row, es in zip(x, chosen, strict=True)
        for e in es
    ]
    return torch.stack(out).view(*index.shape, -1)


def _groupable(x: Tensor, w1: Tensor, w2: Tensor) -> bool:
    """grouped_mm has no float64, wants rows of whole 16 bytes, and its gradient fails on expanded tensors."""
    sizes = (w1.shape[-1], w2.shape[-1])
    aligned = all(size * x.element_size() % 16 == 0 for size in sizes)
    return aligned and x.dtype in (torch.float32, torch.bfloat16) and not torch.is_grad_enabled()


def _grouped(rows, counts, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    ends = counts.cumsum(0).int()
    gate, up = (F.grouped_mm(rows, w.mT, offs=ends) for w in (w1, w3))
    return F.grouped_mm(situ_glu(gate, up, gate_cap, up_cap), w2.mT, offs=ends)


def _sliced(rows, counts, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    parts = enumerate(rows.split(counts.tolist()))
    return torch.cat([_one(part, w1[e], w3[e], w2[e], gate_cap, up_cap) for e, part in parts if len(part)])

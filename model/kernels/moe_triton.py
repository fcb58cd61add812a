"""Launches the Triton kernels of the experts and the router."""

import torch
import triton
from torch import Tensor

from k3scope.model.kernels import moe_triton_kernels as kernels
from k3scope.model.kernels.triton_setup import configuration, exact_precision


def experts(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    """Same arguments and result as `reference.experts`."""
    return _experts(x, index, (w1, w3, w2), (None, None, None), gate_cap, up_cap)


def experts_mxfp4(x, index, packed, scales, gate_cap, up_cap) -> Tensor:
    """`experts` from packed weights, decoded where they are multiplied; x counts as bfloat16."""
    out = _experts(x.to(torch.bfloat16), index, packed, scales, gate_cap, up_cap)
    return out.to(x.dtype)


def combine(routed: Tensor, weight: Tensor) -> Tensor:
    """Same arguments and result as `reference.combine`."""
    *shape, top_k, latent = routed.shape
    out = routed.new_empty(*shape, latent)
    tile, options = configuration("combine")
    grid = (weight.numel() // top_k, triton.cdiv(latent, tile))
    kernels.combine[grid](routed.contiguous(), weight.contiguous(), out, latent, top_k, tile, **options)
    return out


def route(logits, bias, top_k: int, routed_scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Same arguments and results as `reference.route`."""
    count = logits.shape[-1]
    flat = logits.float().reshape(-1, count).contiguous()
    tokens, make = len(flat), flat.new_empty
    scores, index = make(tokens, count), make(tokens, top_k, dtype=torch.int64)
    weight, margin = make(tokens, top_k), make(tokens)
    _, options = configuration("route")
    sizes = {"E": count, "TOP_K": top_k, "BE": triton.next_power_of_2(count)}
    kernels.route[(tokens,)](
        flat, bias.float().contiguous(), scores, index, weight, margin, routed_scale,
        **sizes, BT=triton.next_power_of_2(top_k + 1), **options,
    )  # fmt: skip
    shape = logits.shape[:-1]
    return scores.view(*shape, -1), index.view(*shape, -1), weight.view(*shape, -1), margin.view(shape)


def _experts(x, index, weights, scales, gate_cap, up_cap) -> Tensor:
    (w1, w3, w2), (s1, s3, s2) = weights, scales
    (count, width, _), latent = w1.shape, x.shape[-1]
    out = x.new_empty(index.numel(), latent)
    if not index.numel():
        return out.view(*index.shape, latent)
    load = "many" if index.numel() > 8 * count else "few"
    kind = "mxfp4" if s1 is not None else "fp32" if x.dtype == torch.float32 else "bf16"
    tile, options = configuration(f"experts_{load} {kind}")
    slots, *blocks = plan(index, count, tile["BM"])
    hidden = x.new_empty(index.numel(), width)
    precision = exact_precision() if kind == "fp32" else "ieee"
    shared = {"L": latent, "F": width, **tile, "PREC": precision, **options}
    x, w1, w3, w2 = (t.contiguous() for t in (x, w1, w3, w2))
    kernels.experts_up[(triton.cdiv(width, tile["BN"]), len(blocks[0]))](
        x, w1, w3, s1, s3, hidden, slots, *blocks,
        TOP_K=index.shape[1], GATE_CAP=gate_cap, UP_CAP=up_cap, **shared,
    )  # fmt: skip
    kernels.experts_down[(triton.cdiv(latent, tile["BN"]), len(blocks[0]))](
        hidden, w2, s2, out, slots, *blocks, **shared
    )
    return out.view(*index.shape, latent)


def plan(index: Tensor, count: int, rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Slots sorted by expert; then for each block of up to `rows` of them its expert, start and end.

    Nothing waits for the device: there are as many blocks as the worst split needs, spare ones say -1.
    """
    flat = index.flatten()
    slots = flat.argsort(stable=True)
    counts = torch.zeros(count, dtype=torch.int64, device=index.device).index_add_(
        0, flat, torch.ones_like(flat)
    )
    ends, blocks = counts.cumsum(0), ((counts + rows - 1) // rows).cumsum(0)
    block = torch.arange(min(flat.numel(), count) + flat.numel() // rows, device=index.device)
    expert = torch.searchsorted(blocks, block, right=True)
    live = expert < count
    expert = expert.clamp(max=count - 1)
    first = torch.where(expert > 0, blocks[expert - 1], 0)
    start = ends[expert] - counts[expert] + (block - first) * rows
    return slots, torch.where(live, expert, -1), start, torch.where(live, ends[expert], 0)

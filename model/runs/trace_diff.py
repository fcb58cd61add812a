"""Two traces of one prompt: which block disagrees first, and by how much."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from k3scope.model.tracing import REAL

# order in which a layer computes its tensors
INSIDE = (
    "self_attention_res.probs", "self_attention_res.mixed", "kda.conv_state_q", "kda.conv_state_k",
    "kda.conv_state_v", "kda.final_state_vk", "self_attn.out", "mlp_res.probs", "mlp_res.mixed",
    "router.margin", "router.topk_idx", "router.topk_weight", "ffn.out", "prefix_sum", "num_blocks",
)  # fmt: skip
SIZED = ("prefix_sum", "logits")  # their last axis is the width of the model, or its vocabulary
AFTER = ("output_attn_res.probs", "output_attn_res.mixed", "final_norm.out", "logits")


@dataclass(frozen=True)
class TraceDifference:
    """One tensor of both traces.

    `error` is relative to the largest magnitude; for indices it is the share that differs.
    """

    name: str
    error: float
    problem: str = ""  # why the two cannot be compared


def compare(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> list[TraceDifference]:
    """Differences of all tensors both have, in the order a forward pass computes them.

    ValueError when they share none, or were made from different tokens or by models of different sizes.
    """
    shared = sorted(ours.keys() & theirs.keys() - {"token_ids", REAL}, key=_order)
    if not shared:
        raise ValueError(
            "the two files share no tensor name; expected two traces, such as k3scope trace writes"
        )
    real = _real(ours, theirs)
    a, b = (t.get("token_ids") for t in (ours, theirs))
    same = a is None or b is None or torch.equal(*(_of_tokens("token_ids", t, real) for t in (a, b)))
    if not same:
        raise ValueError("the two traces are of different token_ids; compare runs of the same tokens")
    for name in shared:
        if name.endswith(SIZED) and ours[name].shape[-1] != theirs[name].shape[-1]:
            shapes = f"{tuple(ours[name].shape)} and {tuple(theirs[name].shape)}"
            raise ValueError(f"the two traces are of models of different sizes: {name} has shapes {shapes}")
    pairs = ((_of_tokens(name, t[name], real) for t in (ours, theirs)) for name in shared)
    return [_difference(name, *pair) for name, pair in zip(shared, pairs, strict=True)]


def _real(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> Tensor | None:
    """Which tokens [B, T] are no padding in both; None when neither has any."""
    masks = [t[REAL].bool() for t in (ours, theirs) if REAL in t]
    if len(masks) == 2 and not torch.equal(*masks):
        raise ValueError("the two traces have padding in different places; compare runs of the same mask")
    return masks[0] if masks else None


def _of_tokens(name: str, x: Tensor, real: Tensor | None) -> Tensor:
    """What a tensor has of tokens: padding means nothing in either trace. States have no axis of tokens."""
    return x if real is None or ".kda." in name or x.shape[:2] != real.shape else x[real]


def first_beyond(differences: list[TraceDifference], tolerance: float) -> TraceDifference | None:
    """The first tensor, in forward order, that is off by more than `tolerance`."""
    return next((d for d in differences if d.problem or not d.error <= tolerance), None)


def _difference(name: str, a: Tensor, b: Tensor) -> TraceDifference:
    if a.shape != b.shape:
        return TraceDifference(name, float("inf"), f"shapes {tuple(a.shape)} and {tuple(b.shape)}")
    if not b.is_floating_point():
        return TraceDifference(name, (a != b).double().mean().item())
    a, b = a.double(), b.double()
    if bad := [file for file, t in (("ours", a), ("theirs", b)) if not t.isfinite().all()]:
        return TraceDifference(name, float("inf"), f"NaN or infinity in {' and in '.join(bad)}")
    scale = b.abs().max().item() or 1.0
    return TraceDifference(name, (a - b).abs().max().item() / scale)


def _order(name: str) -> tuple:
    match = re.fullmatch(r"layers\.(\d+)\.(.+)", name)
    if match:
        inside = INSIDE.index(match[2]) if match[2] in INSIDE else len(INSIDE)
        return (1, int(match[1]), inside, name)
    return (2, 0, AFTER.index(name), name) if name in AFTER else (0, 0, 0, name)

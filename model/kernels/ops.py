"""The operators of the model: declaration, shapes, FLOPs, and which path runs."""

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from k3scope.model.kernels import dispatch, experts_cpp, experts_torch, kda_cpp, kda_torch, reference

_IMPLEMENTED = {
    "kda": {"cpp": kda_cpp.kda, "torch": kda_torch.kda, "reference": reference.kda},
    "experts": {
        "cpp": experts_cpp.experts,
        "torch": experts_torch.experts,
        "reference": reference.experts,
    },
    "experts_mxfp4": {"torch": experts_torch.experts_mxfp4, "reference": experts_torch.experts_mxfp4},
    "route": {"torch": reference.route, "reference": reference.route},
    "combine": {"torch": reference.combine, "reference": reference.combine},
    "mix": {"torch": reference.mix, "reference": reference.mix},
    "short_conv": {"torch": reference.short_conv, "reference": reference.short_conv},
}


def _implementation(operator: str, x: Tensor, gradients: bool = False):
    path = dispatch.choose(operator, x, gradients)
    if path == "triton":
        from k3scope.model.kernels import triton_operators  # triton is an extra, and seconds to import

        return getattr(triton_operators, operator)
    return _IMPLEMENTED[operator][path]


@torch.library.custom_op("k3scope::kda", mutates_args=())
def _kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    write: Tensor,
    initial_state: Tensor | None,
    cu_seqlens: Tensor | None,
) -> tuple[Tensor, Tensor]:
    return _implementation("kda", q)(q, k, v, decay, write, initial_state, cu_seqlens)


@_kda.register_fake
def _(q, k, v, decay, write, initial_state, cu_seqlens):
    sequences = q.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    wide = torch.promote_types(q.dtype, torch.float32)
    state = q.new_empty(sequences, q.shape[2], q.shape[3], v.shape[-1], dtype=wide)
    return torch.empty_like(v, memory_format=torch.contiguous_format), state


@register_flop_formula(torch.ops.k3scope.kda)
def _kda_flops(q_shape, k_shape, v_shape, *_args, out_shape=None, **_kwargs) -> int:
    batch, steps, heads, key_dim = q_shape
    return 6 * batch * steps * heads * key_dim * v_shape[-1]  # predict, write, read


@torch.library.custom_op("k3scope::experts", mutates_args=())
def _experts(
    x: Tensor, index: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, gate_cap: float | None, up_cap: float | None
) -> Tensor:
    return _implementation("experts", x)(x, index, w1, w3, w2, gate_cap, up_cap)


@_experts.register_fake
def _(x, index, w1, w3, w2, gate_cap, up_cap):
    return x.new_empty(*index.shape, x.shape[-1])


@register_flop_formula(torch.ops.k3scope.experts)
def _experts_flops(x_shape, index_shape, w1_shape, *_args, out_shape=None, **_kwargs) -> int:
    rows, top_k = index_shape
    _, expert_dim, latent = w1_shape
    return 6 * rows * top_k * latent * expert_dim  # three matrices, two operations per weight


@torch.library.custom_op("k3scope::experts_mxfp4", mutates_args=())
def _experts_mxfp4(
    x: Tensor,
    index: Tensor,
    packed: list[Tensor],
    scales: list[Tensor],
    gate_cap: float | None,
    up_cap: float | None,
) -> Tensor:
    return _implementation("experts_mxfp4", x)(x, index, packed, scales, gate_cap, up_cap)


@_experts_mxfp4.register_fake
def _(x, index, packed, scales, gate_cap, up_cap):
    return x.new_empty(*index.shape, x.shape[-1])


@register_flop_formula(torch.ops.k3scope.experts_mxfp4)
def _experts_mxfp4_flops(x_shape, index_shape, packed_shapes, *_args, out_shape=None, **_kwargs) -> int:
    (rows, top_k), (_, expert_dim, half) = index_shape, packed_shapes[0]
    return 6 * rows * top_k * 2 * half * expert_dim


def kda(q, k, v, decay, write, initial_state=None, cu_seqlens=None) -> tuple[Tensor, Tensor]:
    """The gated delta rule; see `reference.kda` for shapes. With gradients on, the differentiable path."""
    if _needs_gradient(q, k, v, decay, write, initial_state):
        return _implementation("kda", q, gradients=True)(q, k, v, decay, write, initial_state, cu_seqlens)
    return _kda(q, k, v, decay, write, initial_state, cu_seqlens)


def experts(x, index, w1, w3, w2, gate_cap, up_cap) -> Tensor:
    """The chosen experts of each token; see `reference.experts` for shapes."""
    if _needs_gradient(x, w1, w3, w2):
        return _implementation("experts", x, gradients=True)(x, index, w1, w3, w2, gate_cap, up_cap)
    return _experts(x, index, w1, w3, w2, gate_cap, up_cap)


def experts_mxfp4(x, index, packed, scales, gate_cap, up_cap) -> Tensor:
    """`experts` from packed weights: `packed` and `scales` are the uint8 tensors of w1, w3, w2; no gradients.

    An expert's matrix [rows, n] is packed [rows, n / 2] with scales [rows, n / 32]; see `mxfp4.decode`.
    """
    return _experts_mxfp4(x, index, list(packed), list(scales), gate_cap, up_cap)


def route(logits, bias, top_k: int, routed_scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, chosen experts, their weights and the margin of the cut; see `reference.route`."""
    gradients = _needs_gradient(logits, bias)
    return _implementation("route", logits, gradients)(logits, bias, top_k, routed_scale)


def combine(routed, weight) -> Tensor:
    """Weighted sum of the chosen experts' outputs; see `reference.combine`."""
    return _implementation("combine", routed, _needs_gradient(routed, weight))(routed, weight)


def mix(values, query, eps: float) -> tuple[Tensor, Tensor]:
    """The blend over depth and its weights; see `reference.mix`."""
    return _implementation("mix", values, _needs_gradient(values, query))(values, query, eps)


def short_conv(x, weight, heads: int, eps: float | None = None) -> Tensor:
    """Short convolution, SiLU and, with `eps`, unit length per head; see `reference.short_conv`."""
    return _implementation("short_conv", x, _needs_gradient(x, weight))(x, weight, heads, eps)


def path_in_use(operator: str | None = None) -> str:
    """Name of the implementation that ran last here, or before any run the one that would.

    Without an operator: all of them in one line.
    """
    if operator is not None:
        return dispatch.TITLES[dispatch.last_paths().get(operator) or dispatch.expected(operator)]
    return ", ".join(f"{path_in_use(name)} ({title})" for name, title in dispatch.OPERATORS.items())


def _needs_gradient(*tensors: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)

"""One forward pass with everything it computed inside, under the names other implementations use."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from k3scope.model.config import Config
from k3scope.model.hooks import record, watch
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.vision.tower import Images

_TEXT = "language_model.model."
_LAYERS = f"{_TEXT}layers."
# neutral name -> hook point; what a model does not have is left out
OUTSIDE_LAYERS = {
    "vision_tower.out": "vision_tower",
    "mm_projector.out": "mm_projector",
    "output_attn_res.probs": f"{_TEXT}output_attn_res.probs",
    "output_attn_res.mixed": f"{_TEXT}output_attn_res",
    "final_norm.out": f"{_TEXT}norm",
}
IN_LAYER = {
    "self_attention_res.probs": "self_attention_res.probs",
    "self_attention_res.mixed": "self_attention_res",
    "self_attn.out": "self_attn",
    "mlp_res.probs": "mlp_res.probs",
    "mlp_res.mixed": "mlp_res",
    "router.margin": "block_sparse_moe.gate.margin",
    "ffn.out": "block_sparse_moe",
    "prefix_sum": "prefix_sum",
}


@dataclass
class Trace:
    """Result of a forward: ids [B, T] with placeholders expanded, logits [B, T, vocab], and `values`.

    `values`: hook point -> output.
    """

    ids: Tensor
    logits: Tensor
    values: dict = field(repr=False)

    def layer(self, layer: int, point: str):
        """Value of a hook point inside a layer: `trace.layer(3, "self_attn.attention.probs")`."""
        return self.values[f"{_LAYERS}{layer}.{point}"]


@torch.no_grad()
def trace(
    model: KimiK3,
    ids: Tensor,
    points=None,
    edits=None,
    on_point=None,
    images: Images | None = None,
    on_output=None,
) -> Trace:
    """Run `ids` [B, T] or [T] through the model and record the outputs of hook points (None: all).

    `edits`: hook point -> function that replaces its output. `on_point` is called at each hook point; raising
    there ends the pass. `on_output` is called with each hook point and its output, recorded or not.
    ValueError for ids the model has no embedding for, and for images that are not as many as the
    placeholders in `ids`.
    """
    ids = check_ids(model, ids)
    expanded = ids if images is None else model.expand(ids, images)[0]
    with record(points, edits, on_point, on_output) as values:
        logits = watch(model)(ids, images=images)
    return Trace(expanded, logits, values)


def check_ids(model: KimiK3, ids: Tensor) -> Tensor:
    """Ids as [B, T] int64. ValueError when one is outside the vocabulary or there are none."""
    ids = torch.as_tensor(ids)
    ids = ids[None] if ids.ndim == 1 else ids
    vocab = model.config.vocab
    if ids.ndim != 2 or ids.shape[1] == 0 or ids.is_floating_point():
        raise ValueError(
            f"ids have shape {tuple(ids.shape)}; expected at least one integer id, [T] or [B, T]"
        )
    if ids.min() < 0 or ids.max() >= vocab:
        raise ValueError(f"ids run from {ids.min()} to {ids.max()}; this model knows 0..{vocab - 1}")
    return ids.long()


def official_trace(model: KimiK3, ids: Tensor, edits=None, images: Images | None = None) -> dict[str, Tensor]:
    """The inner tensors of a pass under framework-neutral names (`layers.N.router.topk_idx`, ...)."""
    return official_tensors(trace(model, ids, edits=edits, images=images), model.config)


def official_tensors(run: Trace, config: Config) -> dict[str, Tensor]:
    """What `official_trace` has of a pass."""
    out = {"token_ids": run.ids, "logits": run.logits}
    out |= {name: run.values[point] for name, point in OUTSIDE_LAYERS.items() if point in run.values}
    for layer in range(config.layers):
        out |= layer_tensors(run, layer, config)
    return {name: value.contiguous() for name, value in out.items()}


def layer_tensors(run: Trace, layer: int, c: Config) -> dict[str, Tensor]:
    """What `official_trace` has of one layer."""
    return {f"layers.{layer}.{name}": value for name, value in _layer(run, layer, c).items()}


def _layer(run: Trace, layer: int, c: Config) -> dict[str, Tensor]:
    points = IN_LAYER | ({"ffn.out": "mlp"} if layer < c.dense_layers else {})
    out = {n: run.layer(layer, p) for n, p in points.items() if f"{_LAYERS}{layer}.{p}" in run.values}
    if c.block:
        out["num_blocks"] = torch.tensor([layer // c.block + 1])
    if c.block and c.candidates(layer, "attn") == 1:  # the release skips this mix
        del out["self_attention_res.mixed"]
    if layer >= c.dense_layers:
        out |= _router(run, layer)
    if c.kinds[layer] == "kda":
        state = run.layer(layer, "self_attn.delta_rule.state")
        out["kda.final_state_vk"] = state.transpose(-1, -2)
        for name in "qkv":
            inputs = run.layer(layer, f"self_attn.{name}_proj")
            out[f"kda.conv_state_{name}"] = _last_inputs(inputs, c.conv)
    return out


def _router(run: Trace, layer: int) -> dict[str, Tensor]:
    index, order = run.layer(layer, "block_sparse_moe.gate.topk_idx").sort(-1)
    return {
        "router.topk_idx": index,
        "router.topk_weight": run.layer(layer, "block_sparse_moe.gate.topk_weight").gather(-1, order),
    }


def _last_inputs(x: Tensor, count: int) -> Tensor:
    """The last `count` inputs of a convolution, zeros before the first token: [B, width, count]."""
    return F.pad(x.transpose(1, 2), (count, 0))[..., -count:]

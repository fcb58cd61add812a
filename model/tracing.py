"""One forward pass with everything it computed inside, under the names other implementations use."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from k3scope.model.cache import check_mask
from k3scope.model.config import Config
from k3scope.model.hooks import record, watch
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.vision.tower import Images

_TEXT = "language_model.model."
_VISION = "vision_tower"
SEEING = (_VISION, "mm_projector")  # their values have no axis of tokens
_LAYERS = f"{_TEXT}layers."
REAL = "real"  # which tokens are no padding
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

    `values`: hook point -> output. `real` [B, T] is False at padding; None when there is none.
    """

    ids: Tensor
    logits: Tensor
    values: dict = field(repr=False)
    real: Tensor | None = field(default=None, kw_only=True)

    @property
    def padded(self) -> bool:
        """Whether there is more in it than one sequence without padding."""
        return self.real is not None or self.ids.shape[0] > 1

    def row(self, row: int) -> "Trace":
        """One sequence of the batch, counted from 0, without its padding: as if it had run alone.

        ValueError when there is no such row, or when the prompt has images: their rows are not kept apart.
        """
        batch = self.ids.shape[0]
        if not 0 <= row < batch:
            raise ValueError(f"there is no row {row}; expected 0 to {batch - 1}")
        if batch > 1 and _VISION in self.values:
            raise ValueError("the images of a batch are not kept apart by row; trace one prompt at a time")
        at = torch.arange(self.ids.shape[1], device=self.ids.device)
        at = at if self.real is None else at[self.real[row]]
        if not len(at):
            raise ValueError(f"row {row} is padding throughout")
        values = {path: _of_row(path, value, row, at) for path, value in self.values.items()}
        logits = None if self.logits is None else self.logits[row : row + 1, at]
        return replace(self, ids=self.ids[row : row + 1, at], logits=logits, values=values, real=None)

    def layer(self, layer: int, point: str):
        """Value of a hook point inside a layer: `trace.layer(3, "self_attn.attention.probs")`."""
        return self.values[f"{_LAYERS}{layer}.{point}"]


def _of_row(path: str, value, row: int, at: Tensor):
    """Of one hook point: one row of the batch at these positions."""
    if isinstance(value, tuple | list):
        return type(value)(_of_row(path, part, row, at) for part in value)
    if not isinstance(value, Tensor) or path.startswith(SEEING):
        return value
    one = value[row : row + 1]
    if path.endswith(".attention.probs"):  # [B, heads, T, T]
        return one[:, :, at][..., at]
    return one if path.endswith(".delta_rule.state") else one[:, at]


def real_numbers(path: str, value: Tensor, real: Tensor) -> Tensor:
    """All numbers of a hook point that are of tokens, [N]; `real` [B, T] says which are no padding."""
    positions = (mask.nonzero()[:, 0] for mask in real)
    return torch.cat([_of_row(path, value, row, at).flatten() for row, at in enumerate(positions)])


@torch.no_grad()
def trace(
    model: KimiK3,
    ids: Tensor,
    points=None,
    edits=None,
    on_point=None,
    images: Images | None = None,
    on_output=None,
    real: Tensor | None = None,
) -> Trace:
    """Run `ids` [B, T] or [T] through the model and record the outputs of hook points (None: all).

    `edits`: hook point -> function that replaces its output. `on_point` is called at each hook point; raising
    there ends the pass. `on_output` is called with each hook point and its output, recorded or not.
    `real` [B, T] or [T] is False at padding, wherever it stands. ValueError for ids the model has no
    embedding for, for images that are not as many as the placeholders, and for a mask of another shape.
    """
    ids, real = check_ids(model, ids), mask_of(ids, real)
    expanded, marks = (ids, real) if images is None else model.expand(ids, images, real)
    with record(points, edits, on_point, on_output) as values:
        logits = watch(model)(ids, real=real, images=images)
    return Trace(expanded, logits, values, real=marks)


def mask_of(ids: Tensor, real) -> Tensor | None:
    """A mask [B, T] or [T] of ids [B, T] or [T] as bool [B, T]; None when every token is real."""
    if real is None:
        return None
    real, ids = torch.as_tensor(real), torch.as_tensor(ids)
    real = check_mask(real[None] if real.ndim == 1 else real, ids[None] if ids.ndim == 1 else ids)
    return None if real.all() else real


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


def official_trace(
    model: KimiK3, ids: Tensor, edits=None, images: Images | None = None, real: Tensor | None = None
) -> dict[str, Tensor]:
    """The inner tensors of a pass under framework-neutral names (`layers.N.router.topk_idx`, ...).

    Of a batch with padding also `real` [B, T], 1 at tokens; what the others hold means nothing.
    """
    return official_tensors(trace(model, ids, edits=edits, images=images, real=real), model.config)


def official_tensors(run: Trace, config: Config) -> dict[str, Tensor]:
    """What `official_trace` has of a pass."""
    out = {"token_ids": run.ids, "logits": run.logits}
    out |= {} if run.real is None else {REAL: run.real.to(torch.uint8)}
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
            out[f"kda.conv_state_{name}"] = _last_inputs(inputs, c.conv, run.real)
    return out


def _router(run: Trace, layer: int) -> dict[str, Tensor]:
    index, order = run.layer(layer, "block_sparse_moe.gate.topk_idx").sort(-1)
    return {
        "router.topk_idx": index,
        "router.topk_weight": run.layer(layer, "block_sparse_moe.gate.topk_weight").gather(-1, order),
    }


def _last_inputs(x: Tensor, count: int, real: Tensor | None) -> Tensor:
    """The last `count` real inputs of a convolution, zeros before the first token: [B, width, count]."""
    if real is not None:  # the real ones last
        x = x.take_along_dim(real.byte().argsort(dim=1, stable=True)[..., None], 1)
        x = x.masked_fill(~real.sort(dim=1, stable=True).values[..., None], 0)
    return F.pad(x.transpose(1, 2), (count, 0))[..., -count:]

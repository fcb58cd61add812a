"""Which sublayer made a logit: the direct path of each output through the last mix, norm and LM head."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.depth import OUTPUT
from k3scope.model.measure.hook_points import array, in_layer, layers_with
from k3scope.model.measure.logit_lens import embedding, likeliest
from k3scope.model.tracing import Trace

_MIXED = "language_model.model.output_attn_res"


@dataclass(frozen=True)
class Attribution:
    """Parts of one logit per position, float64. `parts` and `rest` sum to `logit`.

    `rest` is rounding, and what an intervention on a sum itself has put there.
    """

    names: tuple[str, ...]  # "embedding", "attention 0", "FFN 0", ...
    layers: tuple[int | None, ...]
    targets: np.ndarray  # [T]
    parts: np.ndarray  # [names, T]
    rest: np.ndarray  # [T]
    logit: np.ndarray  # [T]


def points(config, layer: int) -> list[str]:
    """Hook points inside a layer that the attribution reads."""
    ffn = "mlp" if layer < config.dense_layers else "block_sparse_moe"
    first = ["block_store"] if config.block and layer == 0 else []
    return [*first, "self_attn", ffn, "prefix_sum"]


@torch.no_grad()
def attribution(model: KimiK3, trace: Trace, targets: Tensor | None = None) -> Attribution:
    """Contribution of the embedding and of every sublayer to the logit of a target token at each position.

    The LM head reads norm(sum_i alpha_i v_i), and every v_i is a plain sum of sublayer outputs. With the
    weights alpha and the norm's RMS held at their values the logit is linear in those outputs: each gives
    alpha (of its block) * output . (norm weight * LM head row) / RMS. What a sublayer changes in later layers
    is counted there. `targets` [T]; default: the likeliest tokens, and where there is none -1 and NaN.
    """
    logits = trace.logits[0].double()
    targets = likeliest(logits) if targets is None else targets.to(logits.device)
    unknown, targets = targets < 0, targets.clamp_min(0)
    text, head = model.language_model.model, model.language_model.lm_head
    mixed = _mixed(trace)
    rms = (mixed.square().mean(-1, keepdim=True) + text.norm.eps).sqrt()
    direction = head.weight[targets].double() * text.norm.weight.double() / rms  # [T, d]
    names, layers, outputs = zip(*_outputs(trace, model.config), strict=True)
    share = _shares(trace, model.config, layers)  # [names, T]
    parts = torch.stack([(x[0].double() * direction).sum(-1) for x in outputs]) * share
    parts = parts.masked_fill(unknown, torch.nan)
    logit = logits.gather(-1, targets[:, None])[:, 0].masked_fill(unknown, torch.nan)
    targets = targets.masked_fill(unknown, -1)
    numpy = lambda x: x.cpu().numpy()  # noqa: E731
    return Attribution(names, layers, array(targets), numpy(parts), numpy(logit - parts.sum(0)), numpy(logit))


def _outputs(trace: Trace, config):
    yield "embedding", None, embedding(trace)
    for layer in layers_with(trace, "prefix_sum"):
        ffn = "mlp" if layer < config.dense_layers else "block_sparse_moe"
        yield f"attention {layer}", layer, trace.layer(layer, "self_attn")
        yield f"FFN {layer}", layer, trace.layer(layer, ffn)


def _mixed(trace: Trace) -> Tensor:
    """What the final norm reads: [T, d]."""
    last = in_layer(layers_with(trace, "prefix_sum")[-1], "prefix_sum")
    return trace.values[_MIXED if _MIXED in trace.values else last][0].double()


def _shares(trace: Trace, config, layers: tuple[int | None, ...]) -> Tensor:
    """Weight of the block that each output is part of: [names, T]; the first candidate is the embedding."""
    if OUTPUT not in trace.values:
        return torch.ones(len(layers), trace.ids.shape[1], dtype=torch.float64, device=trace.ids.device)
    probs = trace.values[OUTPUT][0].double()  # [T, candidates]
    return torch.stack([probs[:, 0 if layer is None else layer // config.block + 1] for layer in layers])

"""How long the memory of linear attention lasts, and how strongly each token writes to it."""

import math

import numpy as np
import torch
from torch import Tensor

from k3scope.model.measure.hook_points import array, layers_with
from k3scope.model.tracing import Trace


def points(config, layer: int) -> list[str]:
    """Points inside a layer that these reducers and those of `memory` read."""
    if config.kinds[layer] != "kda":
        return []
    names = ("q_l2norm", "k_l2norm", "v_conv1d", "decay", "write", "delta_rule.out", "gate")
    return [f"self_attn.{name}" for name in names]


def kda_layers(trace: Trace) -> list[int]:
    return layers_with(trace, "self_attn.decay")


def half_life(trace: Trace, layer: int) -> np.ndarray:
    """Tokens until half of what a key channel held is forgotten: the median of each head [kda_heads]."""
    return array(_half_life(trace, layer).transpose(0, 1).flatten(1).median(-1).values)


def half_lives(trace: Trace) -> dict[int, np.ndarray]:
    """Median half-life per head for every KDA layer."""
    return {layer: half_life(trace, layer) for layer in kda_layers(trace)}


def half_life_of_channels(trace: Trace, layer: int) -> np.ndarray:
    """Median half-life over the tokens, by head and key channel: [kda_heads, kda_head_dim]."""
    return array(_half_life(trace, layer).median(0).values)


def retention(trace: Trace, layer: int) -> np.ndarray:
    """Share of the memory that each token lets stand, mean over key channels: [T, kda_heads], in (0, 1)."""
    return array(_decay(trace, layer).exp().mean(-1))


def write_strength(trace: Trace, layer: int) -> np.ndarray:
    """How much of the error each token corrects: [T, kda_heads], in (0, 1)."""
    return array(trace.layer(layer, "self_attn.write")[0])


def gate(trace: Trace, layer: int) -> np.ndarray:
    """Mean of the output gate over a head's channels: [T, kda_heads]."""
    return array(trace.layer(layer, "self_attn.gate")[0].mean(-1))


def _half_life(trace: Trace, layer: int) -> Tensor:
    return math.log(2) / -_decay(trace, layer).clamp(max=-1e-12)


def _decay(trace: Trace, layer: int) -> Tensor:
    """[T, kda_heads, kda_head_dim], log-space, < 0; NaN where it is infinite."""
    decay = trace.layer(layer, "self_attn.decay")[0]
    return decay.masked_fill(decay.isinf(), torch.nan)

"""How long the memory of linear attention lasts."""

import math

import numpy as np

from model.measure.points import array, layers_with
from model.trace import Trace


def half_life(trace: Trace, layer: int) -> np.ndarray:
    """Tokens until half of what a key channel held is forgotten: the median of each head [kda_heads]."""
    decay = trace.layer(layer, "self_attn.decay")[0]  # [T, kda_heads, kda_head_dim], log-space, < 0
    tokens = math.log(2) / -decay.clamp(max=-1e-12)
    return array(tokens.transpose(0, 1).flatten(1).median(-1).values)


def half_lives(trace: Trace) -> dict[int, np.ndarray]:
    """Median half-life per head for every KDA layer."""
    return {layer: half_life(trace, layer) for layer in layers_with(trace, "self_attn.decay")}

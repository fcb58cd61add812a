"""The running sum over depth, and from which depth each mix reads."""

from dataclasses import dataclass

import numpy as np
import torch

from model.measure.points import array, layers_with
from model.trace import Trace

_OUTPUT = "language_model.model.output_attn_res.probs"


@dataclass(frozen=True)
class Residual:
    """Size of the running sum that each layer returns, for the first sequence."""

    layers: tuple[int, ...]
    rms: np.ndarray  # [layers, T]
    peak: np.ndarray  # [layers, T], largest absolute value


@dataclass(frozen=True)
class Mix:
    """Mean weights of one AttnRes mix over its candidates: the stored sums in order, then the running sum."""

    point: str
    layer: int | None  # None: the mix before the head
    place: str  # "attention", "FFN" or "output"
    mean: np.ndarray  # [candidates]


def residual(trace: Trace) -> Residual:
    """RMS and largest absolute value of `prefix_sum` by layer and token."""
    layers = layers_with(trace, "prefix_sum")
    sums = [trace.layer(layer, "prefix_sum")[0] for layer in layers]
    rms = torch.stack([x.square().mean(-1).sqrt() for x in sums])
    peak = torch.stack([x.abs().amax(-1) for x in sums])
    return Residual(tuple(layers), array(rms), array(peak))


def mixes(trace: Trace) -> tuple[Mix, ...]:
    """Every mix that had a choice, in forward order."""
    places = (("self_attention_res.probs", "attention"), ("mlp_res.probs", "FFN"))
    found = [
        _mix(trace, f"language_model.model.layers.{layer}.{point}", layer, place)
        for point, place in places
        for layer in layers_with(trace, point)
    ]
    found.sort(key=lambda mix: (mix.layer, mix.place != "attention"))
    if _OUTPUT in trace.values:
        found.append(_mix(trace, _OUTPUT, None, "output"))
    return tuple(found)


def _mix(trace: Trace, point: str, layer: int | None, place: str) -> Mix:
    return Mix(point, layer, place, array(trace.values[point][0].mean(0)))

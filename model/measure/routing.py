"""Which experts the tokens went to, how strongly, and how close the choice was."""

from dataclasses import dataclass

import numpy as np
import torch

from model.measure.points import array, layers_with
from model.trace import Trace

_GATE = "block_sparse_moe.gate."


@dataclass(frozen=True)
class Routing:
    """The choice of one layer for the first sequence: best expert first."""

    layer: int
    index: np.ndarray  # [T, top_k]
    weight: np.ndarray  # [T, top_k]
    margin: np.ndarray  # [T], distance from the last chosen to the first refused score

    def counts(self, experts: int) -> np.ndarray:
        """Tokens per expert; sums to T * top_k."""
        return np.bincount(self.index.ravel(), minlength=experts)

    def load(self, experts: int) -> np.ndarray:
        """Summed weight per expert."""
        return np.bincount(self.index.ravel(), self.weight.ravel(), minlength=experts)


def moe_layers(trace: Trace) -> list[int]:
    return layers_with(trace, _GATE + "topk_idx")


def routing_of(trace: Trace, layer: int) -> Routing:
    """Choice, weights and margins of a layer that has experts."""
    index, weight, margin = (trace.layer(layer, _GATE + p)[0] for p in ("topk_idx", "topk_weight", "margin"))
    return Routing(layer, array(index.to(torch.int16)), array(weight), array(margin))


def routing_counts(trace: Trace) -> np.ndarray:
    """Tokens per expert in every MoE layer [MoE layers, experts]; each row sums to T * top_k."""
    layers = moe_layers(trace)
    if not layers:
        return np.zeros((0, 0), dtype=np.int64)
    experts = trace.layer(layers[0], _GATE + "scores").shape[-1]
    return np.stack([routing_of(trace, layer).counts(experts) for layer in layers])

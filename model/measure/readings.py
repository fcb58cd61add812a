"""Everything the pictures of a run need, reduced from a trace so that the trace can be dropped."""

from dataclasses import dataclass

import numpy as np
import torch

from k3scope.model.measure.depth import MixWeights, Residual, mixes, residual
from k3scope.model.measure.half_life import half_lives
from k3scope.model.measure.logit_lens import TokenPredictions, token_predictions, top_next
from k3scope.model.measure.routing import Routing, moe_layers, routing_counts, routing_of
from k3scope.model.measure.statistics import Statistics, all_statistics, first_bad
from k3scope.model.tracing import Trace


@dataclass(frozen=True)
class Readings:
    """Small arrays of one forward pass of one sequence."""

    next_ids: np.ndarray  # [k], likeliest first
    next_probs: np.ndarray  # [k]
    tokens: TokenPredictions
    residual: Residual
    counts: np.ndarray  # [MoE layers, experts]
    routing: dict[int, Routing]
    mixes: tuple[MixWeights, ...]
    half_lives: dict[int, np.ndarray]  # layer -> [kda_heads], tokens
    points: dict[str, Statistics]  # in the order of the forward pass
    first_bad: str | None


@torch.no_grad()
def readings(trace: Trace, k: int = 8, points: dict[str, Statistics] | None = None) -> Readings:
    """Reduce a trace, of a batch its first row; about 50 bytes per token and layer are left of it.

    `points`: statistics of every hook point, when the trace has not recorded them all.
    """
    points = all_statistics(trace) if points is None else points
    trace = trace.row(0) if trace.padded else trace
    ids, probs = top_next(trace.logits, k)
    return Readings(
        next_ids=ids,
        next_probs=probs,
        tokens=token_predictions(trace),
        residual=residual(trace),
        counts=routing_counts(trace),
        routing={layer: routing_of(trace, layer) for layer in moe_layers(trace)},
        mixes=mixes(trace),
        half_lives=half_lives(trace),
        points=points,
        first_bad=first_bad(points),
    )

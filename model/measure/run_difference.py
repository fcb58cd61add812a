"""What is different between two runs, position by position or aligned by their tokens."""

import difflib
from dataclasses import dataclass

import numpy as np
import torch

from k3scope.model.measure import routing_overlap
from k3scope.model.measure.hook_points import array, layers_with
from k3scope.model.measure.logit_lens import token_predictions
from k3scope.model.measure.routing import moe_layers, routing_of
from k3scope.model.tracing import Trace


@dataclass(frozen=True)
class RunDifference:
    """Two runs at the positions `pairs`. Token statistics are of the next token, as the logits give it.

    NaN where either run has no number.
    """

    pairs: np.ndarray  # [N, 2], positions in the first and in the second run
    kl: np.ndarray  # [N], nats: how much the second run's next-token distribution surprises the first
    top_changed: np.ndarray  # [N], whether the likeliest next token is another; not known where `kl` is NaN
    logits: np.ndarray  # [N], largest change of a logit, after each row's mean is taken off
    loss: np.ndarray  # [N], change of the loss of the token itself; NaN where nothing predicted it
    layers: tuple[int, ...]
    shift: np.ndarray  # [layers, N], change of the running sum, relative to its size in the first run
    moe_layers: tuple[int, ...]
    routes: np.ndarray  # [MoE layers, N], share of the experts that both chose

    @property
    def mean_loss(self) -> float:
        """Mean change of the loss over the tokens that both runs predicted; NaN if one of these is."""
        measured = self.loss[(self.pairs > 0).all(-1)]  # nothing predicts the first token
        return float(measured.mean()) if measured.size else float("nan")


def aligned(ours: list[int], theirs: list[int]) -> np.ndarray:
    """Positions with the same token in two prompts, in the order of both: [N, 2]."""
    blocks = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    pairs = [(b.a + i, b.b + i) for b in blocks for i in range(b.size)]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@torch.no_grad()
def difference(ours: Trace, theirs: Trace, pairs: np.ndarray | None = None) -> RunDifference:
    """Compare two traces at `pairs`; by default where `aligned` has the same tokens."""
    ours, theirs = (t.row(0) if t.padded else t for t in (ours, theirs))
    if pairs is None:
        pairs = aligned(ours.ids[0].tolist(), theirs.ids[0].tolist())
    a, b = (torch.from_numpy(column) for column in pairs.T.copy())
    first, second = (run.logits[0][at].double() for run, at in ((ours, a), (theirs, b)))
    loss = [token_predictions(run).loss[at] for run, at in ((ours, a), (theirs, b))]
    delta = (second - second.mean(-1, keepdim=True)) - (first - first.mean(-1, keepdim=True))
    logs = first.log_softmax(-1), second.log_softmax(-1)
    bad = ~(first.isfinite() & second.isfinite()).all(-1)
    shared = [n for n in layers_with(ours, "prefix_sum") if n in layers_with(theirs, "prefix_sum")]
    routed = [n for n in moe_layers(ours) if n in moe_layers(theirs)]
    return RunDifference(
        pairs,
        kl=array((logs[0].exp() * (logs[0] - logs[1])).sum(-1).clamp_min(0).masked_fill(bad, torch.nan)),
        top_changed=array((first.argmax(-1) != second.argmax(-1)) & ~bad),
        logits=array(delta.abs().amax(-1).masked_fill(bad, torch.nan)),
        loss=loss[1] - loss[0],
        layers=tuple(shared),
        shift=np.stack([_shift(ours, theirs, n, a, b) for n in shared]),
        moe_layers=tuple(routed),
        routes=np.stack([_common_routes(ours, theirs, n, pairs) for n in routed])
        if routed
        else np.zeros((0, len(a))),
    )


def _shift(ours: Trace, theirs: Trace, layer: int, a, b) -> np.ndarray:
    first, second = (run.layer(layer, "prefix_sum")[0][at] for run, at in ((ours, a), (theirs, b)))
    moved, size = (second - first).norm(dim=-1), first.norm(dim=-1)
    return array((moved / size).masked_fill((moved == 0) & (size == 0), 0))


def _common_routes(ours: Trace, theirs: Trace, layer: int, pairs: np.ndarray) -> np.ndarray:
    first, second = (
        routing_of(run, layer).index[at] for run, at in zip((ours, theirs), pairs.T, strict=True)
    )
    return routing_overlap.of_choices(first, second)

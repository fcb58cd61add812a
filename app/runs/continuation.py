"""Tokens after a prompt: chosen by the visitor or by the model, one by one, and checked against one pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from k3scope.model.hooks import record, watch
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.statistics import all_statistics, first_bad
from k3scope.model.runs.generate import Sampling, choose, steps
from k3scope.model.tracing import Trace, trace
from k3scope.model.vision.tower import Images

GREEDY = Sampling()
STEPPED = 12  # last tokens after a prompt that are gone through step by step; those before go in at once


@dataclass(frozen=True)
class Growth:
    """What follows a prompt: tokens that are there already, and how many the model adds."""

    more: tuple[int, ...] = ()
    tokens: int = 0
    sampling: Sampling = GREEDY

    @property
    def length(self) -> int:
        return len(self.more) + self.tokens


NOTHING = Growth()


@dataclass(frozen=True)
class Grown:
    """All tokens after a prompt, and the logits [n, vocab] from which decode steps gave the last n of them.

    `rows` is None when there were no steps: with changes to the pass, which count positions, every token is a
    pass of its own.
    """

    more: tuple[int, ...] = ()
    rows: Tensor | None = None


UNGROWN = Grown()


@dataclass(frozen=True)
class Follow:
    """Watches on a growing text; raising in one ends it."""

    on_point: Callable[[str], None]
    on_token: Callable[[int], None]  # tokens chosen so far


def grow(
    model: KimiK3, ids: Sequence[int], growth: Growth, images: Images | None, edits: Callable, follow: Follow
) -> Grown:
    """Add the tokens asked for. `edits()`: changes of one pass, empty for none. ValueError for NaN."""
    if edits():
        return _by_passes(model, ids, growth, images, edits, follow)
    fixed = max(0, len(growth.more) - STEPPED)
    start = torch.tensor([*ids, *growth.more[:fixed]])
    given, rows, new = growth.more[fixed:], [], []
    with record([], on_point=follow.on_point):
        for token, logits in steps(watch(model), start, given, growth.tokens, growth.sampling, images):
            rows.append(logits)
            new.append(token)
            if len(new) > len(given):
                follow.on_token(len(new) - len(given))
                if token == model.config.eos:
                    break
    return Grown((*growth.more[:fixed], *new), torch.stack(rows) if rows else None)


def _by_passes(model, ids, growth: Growth, images, edits, follow: Follow) -> Grown:
    more = list(growth.more)
    for n in range(growth.tokens):
        now = torch.tensor([*ids, *more])
        logits = trace(model, now, [], edits(), follow.on_point, images).logits[0, -1]
        if not logits.isfinite().all():
            bad = first_bad(all_statistics(trace(model, now, None, edits(), images=images)))
            raise ValueError(f"the logits are not finite, so nothing is chosen; first NaN or infinity: {bad}")
        more.append(choose(logits, growth.sampling, growth.sampling.generator(len(now))))
        follow.on_token(n + 1)
        if more[-1] == model.config.eos:
            break
    return Grown(tuple(more), None)


def disagreement(passed: Trace, grown: Grown) -> float | None:
    """Largest difference of a logit between the steps and the pass over all tokens at once."""
    if grown.rows is None:
        return None
    at_once = passed.logits[0, -1 - len(grown.rows) : -1]
    return float((grown.rows.double() - at_once.double()).abs().max())

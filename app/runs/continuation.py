"""Tokens after a prompt: given by a visitor or sampled one by one, and checked against one pass over all."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from k3scope.app.runs.price import PLAIN, STEP, Slice
from k3scope.model.hooks import record, watch
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.statistics import all_statistics, first_bad
from k3scope.model.runs.generate import Sampling, choose, steps
from k3scope.model.tracing import Trace, trace
from k3scope.model.vision.tower import Images

GREEDY = Sampling()
STEPPED = 12  # last given tokens that are decoded step by step; those before them are part of the prefill


@dataclass(frozen=True)
class Continuation:
    """What follows a prompt: ids that are there already, and how many tokens the model adds."""

    generated_ids: tuple[int, ...] = ()
    tokens: int = 0
    sampling: Sampling = GREEDY

    @property
    def length(self) -> int:
        return len(self.generated_ids) + self.tokens


NO_CONTINUATION = Continuation()


@dataclass(frozen=True)
class ContinuationResult:
    """All ids after a prompt, and the logits [n, vocab] from which decode steps gave the last n of them.

    `step_logits` is None when there were no steps: with interventions, which count positions, every token is
    a pass of its own.
    """

    generated_ids: tuple[int, ...] = ()
    step_logits: Tensor | None = None


NO_RESULT = ContinuationResult()


@dataclass(frozen=True)
class Callbacks:
    """Called as a text grows; raising in one ends it."""

    on_point: Callable[[str], None]  # with the path of a hook point that was reached
    on_token: Callable[[int], None]  # with the number of tokens sampled so far


Growth = Generator[Slice, None, ContinuationResult]  # yields after each token


def extend(
    model: KimiK3,
    ids: Sequence[int],
    continuation: Continuation,
    images: Images | None,
    edits: Callable,
    callbacks: Callbacks,
) -> Growth:
    """Add the tokens asked for to the prompt `ids`; whoever steps it may do something else after each token.

    `edits()` gives the edits of one pass, empty for none. ValueError when the logits are not finite.
    """
    if edits():
        return _by_passes(model, ids, continuation, images, edits, callbacks)
    return _by_steps(model, ids, continuation, images, callbacks)


def _by_steps(model, ids, continuation: Continuation, images, callbacks: Callbacks) -> Growth:
    given = continuation.generated_ids
    prefilled = max(0, len(given) - STEPPED)
    start = torch.tensor([*ids, *given[:prefilled]])
    stepped, step_logits, new = given[prefilled:], [], []
    decoded = steps(watch(model), start, stepped, continuation.tokens, continuation.sampling, images)
    while (step := _recorded(decoded, callbacks.on_point)) is not None:
        token, logits = step
        step_logits.append(logits)
        new.append(token)
        if len(new) > len(stepped):
            callbacks.on_token(len(new) - len(stepped))
        yield Slice(PLAIN, len(start)) if len(new) == 1 else Slice(STEP)
        if len(new) > len(stepped) and token in model.config.stops:
            break
    return ContinuationResult((*given[:prefilled], *new), torch.stack(step_logits) if step_logits else None)


def _recorded(decoded: Iterator, on_point: Callable[[str], None]) -> tuple[int, Tensor] | None:
    """The next decode step. What listens to hook points does so in it alone, not while others pass."""
    with record([], on_point=on_point):
        return next(decoded, None)


def _by_passes(model, ids, continuation: Continuation, images, edits, callbacks: Callbacks) -> Growth:
    generated, sampling = list(continuation.generated_ids), continuation.sampling
    for n in range(continuation.tokens):
        now = torch.tensor([*ids, *generated])
        logits = trace(model, now, [], edits(), callbacks.on_point, images).logits[0, -1]
        if not logits.isfinite().all():
            statistics = all_statistics(trace(model, now, None, edits(), callbacks.on_point, images))
            bad = first_bad(statistics)
            raise ValueError(f"the logits are not finite, so nothing is chosen; first NaN or infinity: {bad}")
        generated.append(choose(logits, sampling, sampling.generator(len(now))))
        callbacks.on_token(n + 1)
        yield Slice(PLAIN, len(now))
        if generated[-1] in model.config.stops:
            break
    return ContinuationResult(tuple(generated), None)


def step_error(trace: Trace, continued: ContinuationResult) -> float | None:
    """Largest difference of a logit between decode steps and the pass over all tokens; None without steps."""
    if continued.step_logits is None:
        return None
    at_once = trace.logits[0, -1 - len(continued.step_logits) : -1]
    return float((continued.step_logits.double() - at_once.double()).abs().max())

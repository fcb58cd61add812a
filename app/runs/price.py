"""How many seconds a run needs, as far as the passes before it tell."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from k3scope.model.config import Config

OBSERVED, PLAIN, STEP = "observed", "plain", "step"  # a pass with all that is measured, one without; a decode
FORGET = 0.98  # weight of what was measured, with each measurement after it
SLOWEST = 2e9  # multiplications a second at the start: what two busy cores do at least
BELIEF = 0.05  # weight of the coefficients at the start against one measurement
OUTLIER = 4.0  # times what was expected: a pass that took longer, the first one say, counts as so much
SIZES = 16, 256, 2048  # tokens at which the start stands in for measurements
_SUBSETS = [list(kept) for count in (1, 2, 3) for kept in combinations(range(3), count)]


class Slice(NamedTuple):
    """What a run has done between two moments at which it can let others pass."""

    kind: str
    tokens: int = 0


class PassCost:
    """Seconds of one pass as `a + b tokens + c tokens^2`, least squares of what was measured lately."""

    def __init__(self, start: tuple[float, float, float]):
        self.coefficients = self._start = start
        self._products, self._sums = np.zeros((3, 3)), np.zeros(3)
        for tokens in SIZES:
            self._add(tokens, self.seconds(tokens), BELIEF)

    def seconds(self, tokens: int) -> float:
        return _curve(self.coefficients, tokens)

    def learn(self, tokens: int, seconds: float) -> None:
        """A pass over so many tokens took so long."""
        expected = max(self.seconds(tokens), _curve(self._start, tokens))
        seconds = min(seconds, OUTLIER * expected)
        self._products *= FORGET
        self._sums *= FORGET
        self._add(tokens, seconds, 1.0)
        self.coefficients = self._solve()

    def _add(self, tokens: int, seconds: float, weight: float) -> None:
        scale = 1 / _curve(self._start, tokens)  # a short pass counts as much as a long one
        row = scale * np.array([1.0, tokens, float(tokens) ** 2])
        self._products += weight * np.outer(row, row)
        self._sums += weight * row * scale * seconds

    def _solve(self) -> tuple[float, float, float]:
        """The best coefficients of which none is below zero."""
        best, least = np.zeros(3), 0.0
        for kept in _SUBSETS:
            coefficients = np.zeros(3)
            products = self._products[np.ix_(kept, kept)]
            coefficients[kept] = np.linalg.lstsq(products, self._sums[kept], rcond=None)[0]
            # of the squared error, all that depends on the coefficients
            error = coefficients @ self._products @ coefficients - 2 * coefficients @ self._sums
            if coefficients.min() >= 0 and error < least:
                best, least = coefficients, error
        return tuple(best.tolist())


def _curve(coefficients: tuple[float, float, float], tokens: int) -> float:
    a, b, c = coefficients
    return a + b * tokens + c * tokens**2


@dataclass(frozen=True)
class Work:
    """What a run still asks of its model: passes without measuring, decode steps, and the pass at the end."""

    tokens: int  # positions of the longest pass
    passes: int = 0
    steps: int = 0
    held_bytes: int = 0  # kept while it lets others pass

    def after(self, done: Slice) -> "Work":
        """The rest after one slice."""
        spent = {PLAIN: {"passes": max(0, self.passes - 1)}, STEP: {"steps": max(0, self.steps - 1)}}
        return replace(self, **spent.get(done.kind, {}))

    @property
    def next_kind(self) -> str:
        return PLAIN if self.passes else STEP if self.steps else OBSERVED


class Price:
    """Seconds of the slices of one model."""

    def __init__(self, config: Config):
        active = rough_active_parameters(config)
        start = 1e-3 * len(config.kinds), active / SLOWEST, len(config.kinds) * config.heads * 2e-8
        self._costs = {
            OBSERVED: PassCost(tuple(2 * coefficient for coefficient in start)),
            PLAIN: PassCost(start),
            STEP: PassCost((start[0] + start[1], 0.0, 0.0)),
        }

    def slice_seconds(self, kind: str, tokens: int) -> float:
        return self._costs[kind].seconds(0 if kind == STEP else tokens)

    def seconds(self, work: Work) -> float:
        """All that is left of a run."""
        steps = work.steps * self.slice_seconds(STEP, 0)
        passes = work.passes * self.slice_seconds(PLAIN, work.tokens)
        return steps + passes + self.slice_seconds(OBSERVED, work.tokens)

    def first(self, work: Work) -> float:
        """The next slice of a run."""
        return self.slice_seconds(work.next_kind, work.tokens)

    def learn(self, done: Slice, seconds: float) -> None:
        """A slice took so long."""
        self._costs[done.kind].learn(0 if done.kind == STEP else done.tokens, seconds)


def rough_active_parameters(c: Config) -> int:
    """About how many numbers one token meets, before the weights are loaded."""
    per_expert = 3 * (c.latent or c.d) * c.expert_dim
    experts = (c.top_k * per_expert) + 3 * c.d * c.expert_dim * c.shared_experts
    return len(c.kinds) * (6 * c.d * c.d + experts) + 2 * c.vocab * c.d

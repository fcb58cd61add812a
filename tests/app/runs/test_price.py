"""The seconds of a run are learnt from the passes before it, and its slices are counted before it begins."""

import numpy as np
import pytest

from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.job import Job
from k3scope.app.runs.price import OBSERVED, PLAIN, STEP, PassCost, Price, Slice, Work
from k3scope.app.runs.run_work import work_of
from k3scope.model import config_of
from k3scope.model.interventions.intervention import Intervention, dumps

ZERO = Intervention("sublayer", "zero", layer=1, place="FFN")


def job(tokens=10, interventions=(), continuation=None):
    text = dumps(interventions) if interventions else ""
    continuation = continuation or Continuation()
    return Job("k3-random", "", [1], 8, tokens, (), text, continuation)


def test_seconds_follow_what_is_measured_over_all_lengths():
    cost = PassCost((1e-2, 1e-4, 1e-7))
    for _ in range(40):
        for tokens in (10, 100, 400, 1500):
            cost.learn(tokens, 0.05 + 2e-3 * tokens + 1e-6 * tokens**2)
    for tokens in (1, 50, 1000, 2000):
        assert cost.seconds(tokens) == pytest.approx(0.05 + 2e-3 * tokens + 1e-6 * tokens**2, rel=0.15)


def test_one_length_alone_teaches_no_negative_seconds():
    cost = PassCost((1e-3, 1e-4, 1e-8))
    for _ in range(100):
        cost.learn(64, 0.5)
    assert cost.seconds(64) == pytest.approx(0.5, rel=0.1)
    assert min(cost.coefficients) >= 0


def test_a_first_pass_that_takes_a_hundred_times_as_long_makes_no_short_one_dear():
    cost = PassCost((1e-2, 1e-3, 1e-6))
    for tokens, seconds in [(12, 1.5), (400, 0.25), (1400, 1.0)]:
        cost.learn(tokens, seconds)
    assert cost.seconds(12) < 0.1
    assert cost.seconds(1400) == pytest.approx(1.0, rel=0.5)


@pytest.mark.parametrize("seed", range(10))
def test_no_coefficients_above_zero_fit_better(seed):
    rng, cost = np.random.default_rng(seed), PassCost((1e-2, 1e-4, 1e-7))
    for tokens in rng.integers(1, 2000, 30):
        cost.learn(
            int(tokens), rng.choice([0.0, 0.1]) + rng.choice([0.0, 1e-3]) * tokens * rng.uniform(0.5, 1.5)
        )

    def error(found):
        return found @ cost._products @ found - 2 * found @ cost._sums

    best = error(np.array(cost.coefficients))
    others = np.abs(np.array(cost.coefficients) * rng.uniform(0.5, 1.5, (200, 3)) + [1e-3, 1e-6, 1e-9])
    assert best <= min(map(error, others)) + 1e-9


def test_a_machine_that_becomes_slower_is_noticed():
    cost = PassCost((1e-3, 1e-4, 1e-8))
    for seconds in [0.1] * 100 + [1.0] * 200:
        cost.learn(100, seconds)
    assert cost.seconds(100) > 0.5


def test_the_slices_of_a_run_are_its_passes_and_steps():
    config = config_of("k3-random")
    assert work_of(config, job()) == Work(10)
    grown = work_of(config, job(20, continuation=Continuation((), 10)))
    assert (grown.passes, grown.steps) == (1, 9)
    assert grown.held_bytes > 10 * config.vocab * 4
    assert work_of(config, job(20, [ZERO], Continuation((), 10))) == Work(20, 10)
    patch = Intervention("sublayer", "patch", layer=1, place="FFN", run="abcdefghijkl")
    patched = work_of(config, job(10, [patch]))
    assert (patched.passes, patched.steps) == (1, 0)
    assert patched.held_bytes >= 10 * config.d * 4


def test_what_is_left_shrinks_with_each_slice():
    price, work = Price(config_of("k3-random")), Work(50, 2, 3)
    seconds = [price.seconds(work)]
    for kind in (PLAIN, PLAIN, STEP, STEP, STEP):
        assert work.next_kind == kind
        work = work.after(Slice(kind, 50))
        seconds.append(price.seconds(work))
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] == price.slice_seconds(OBSERVED, 50)

"""Runs of many visitors on one model: whose slices come when, and that all of them can be stopped."""

import threading
import time

import pytest

from k3scope.app.runs import run_status
from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.fair_queue import FairQueue
from k3scope.app.runs.job import Cancelled, Job
from k3scope.app.runs.requester import Requester
from k3scope.app.runs.runner import Runner
from k3scope.model.interventions.intervention import Intervention, dumps

MODEL = "k3-random"
ZERO = dumps([Intervention("sublayer", "zero", layer=1, place="FFN")])


@pytest.fixture
def slices(monkeypatch):
    """Prompts in the order of the slices that ran."""
    order, plain = [], FairQueue.charge

    def charge(queue, entry, seconds):
        order.append(entry.item.job.prompt)
        plain(queue, entry, seconds)

    monkeypatch.setattr(FairQueue, "charge", charge)
    return order


@pytest.fixture
def runner():
    runner = Runner((MODEL,))
    runner.submit(MODEL, "weights are loaded").future.result(60)
    yield runner
    runner.close()


def ask(runner, visitor, prompt, tokens=0, interventions="") -> Job:
    continuation = Continuation((), tokens)
    return runner.submit(MODEL, prompt, (), interventions, continuation, Requester(visitor))


def until(there, seconds=20):
    end = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_thirty_visitors_who_press_run_together_all_get_their_result(runner):
    jobs = [ask(runner, n, f"thirty {n}") for n in range(1, 31)]
    assert [job.future.result(60).spec.prompt for job in jobs] == [f"thirty {n}" for n in range(1, 31)]


@pytest.fixture
def gate(monkeypatch):
    """Passes wait at every hook point until it is set."""
    gate, plain = threading.Event(), Job.on_point
    gate.set()
    monkeypatch.setattr(Job, "on_point", lambda job, path: (gate.wait(20), plain(job, path)))
    yield gate
    gate.set()


def all_wait(jobs) -> None:
    until(lambda: all(job.place for job in jobs))


def test_ten_passes_go_before_the_next_token_but_one_of_a_long_text(runner, slices, gate):
    long = ask(runner, 1, "long", 512)
    until(lambda: long.sampled > 3)
    gate.clear()
    short = [ask(runner, n, f"short {n}") for n in range(2, 12)]
    all_wait(short)
    asked = len(slices)
    gate.set()
    for job in short:
        job.future.result(60)
    # the token that was under way, and one more where that one had just been paid for
    assert slices[asked : asked + 12].count("long") <= 2
    assert sum(prompt.startswith("short") for prompt in slices[asked : asked + 12]) == 10
    assert not long.future.done()
    long.cancel()
    with pytest.raises(Cancelled):
        long.future.result(5)


def test_a_place_in_a_long_queue_is_not_computed_each_time_that_it_is_asked_for(runner, gate, monkeypatch):
    computed, plain = [], FairQueue.standing
    monkeypatch.setattr(
        FairQueue, "standing", lambda queue, entry: (computed.append(entry), plain(queue, entry))[1]
    )
    gate.clear()
    jobs = [ask(runner, n, f"many {n}") for n in range(1, 61)]
    all_wait(jobs[1:])
    while jobs[0].place:  # until it is the one that runs
        time.sleep(0.01)
    computed.clear()
    places = [[job.place for job in jobs[1:]] for _ in range(20)]
    assert sorted(places[-1]) == list(range(1, 60))
    assert len(computed) <= 2 * 59
    for job in jobs:
        job.cancel()


def test_long_ones_of_three_visitors_do_not_lock_out_a_short_one(runner, slices, gate):
    long = [ask(runner, n, f"long {n} {m}", 60) for n in (1, 2, 3) for m in range(4)]
    until(lambda: len(set(slices)) >= 3)
    gate.clear()
    short = ask(runner, 9, "short")
    all_wait([short])
    asked = len(slices)
    gate.set()
    short.future.result(60)
    assert slices.index("short") - asked <= 1 + 3  # what was under way, and a slice of each of the three
    assert not any(job.future.done() for job in long[3:])
    for job in long:
        job.cancel()


def test_growth_with_an_intervention_lets_others_pass_after_each_token(runner, slices):
    long = ask(runner, 1, "long " * 250, 40, ZERO)
    until(lambda: long.sampled > 0)
    asked = len(slices)
    ask(runner, 2, "two words").future.result(60)
    assert slices.index("two words") - asked <= 2
    assert not long.future.done()
    long.cancel()


def test_a_text_that_lets_others_pass_is_the_same_text(runner):
    alone = ask(runner, 1, "same", 12).future.result(60)
    long = ask(runner, 1, "same", 12)
    others = [ask(runner, n, f"between {n}", 3) for n in range(2, 6)]
    assert long.future.result(60).spec.generated_ids == alone.spec.generated_ids
    assert all(len(job.future.result(60).spec.generated_ids) == 3 for job in others)


def test_a_suspended_and_a_waiting_run_end_at_once_and_the_first_to_leave_loses_nothing(runner, monkeypatch):
    plain = Job.on_point
    monkeypatch.setattr(Job, "on_point", lambda job, path: (time.sleep(0.0005), plain(job, path)))
    long, other = ask(runner, 1, "suspended", 300), ask(runner, 2, "other", 300)
    until(lambda: long.sampled and other.sampled)
    waiting, same = ask(runner, 1, "waits"), ask(runner, 3, "waits")
    assert same is waiting
    until(lambda: waiting.stage == "queued" and waiting.place > 0)
    waiting.cancel()
    assert not waiting.cancelled
    waiting.cancel()
    assert isinstance(waiting.future.exception(0), Cancelled)
    until(lambda: long.suspended)
    long.cancel()
    assert isinstance(long.future.exception(1), Cancelled)
    other.cancel()
    assert isinstance(other.future.exception(1), Cancelled)
    assert runner.queued == {MODEL: 0}


def test_a_run_to_patch_from_is_stopped_at_a_hook_point(runner, monkeypatch):
    source = ask(runner, 1, "source").future.result(60)
    patch = dumps([Intervention("sublayer", "patch", layer=1, place="FFN", run=source.id)])
    seen, plain = [], Job.on_point

    def stop(job, path):
        seen.append(path)
        if len(seen) == 5:
            job.cancel()
        plain(job, path)

    monkeypatch.setattr(Job, "on_point", stop)
    job = ask(runner, 1, "target", 0, patch)
    with pytest.raises(Cancelled):
        job.future.result(60)
    assert len(seen) == 5


def test_the_end_of_the_server_ends_the_slice_and_cancels_the_rest():
    runner = Runner((MODEL,))
    long = ask(runner, 1, "long", 1000)
    waiting = [ask(runner, n, f"waits {n}", 100) for n in range(2, 5)]
    until(lambda: long.sampled)
    runner.close()
    for job in (long, *waiting):
        assert isinstance(job.future.exception(10), Cancelled)


def test_place_and_wait_are_told_and_that_a_text_lets_others_pass():
    job = Job(MODEL, "", [1], 8, 5, continuation=Continuation((), 256), stage="queued")
    job.standing = lambda: (3, 12.2)
    assert run_status.progress(job)["text"] == "5 tokens · place 3 · about 12 s"
    job.standing = lambda: (1, 0.4)
    assert run_status.progress(job)["text"] == "5 tokens · your turn is next"
    job.standing = lambda: (1, 7.0)
    assert run_status.progress(job)["text"] == "5 tokens · your turn is next · about 7 s"
    job.stage, job.sampled, job.suspended = "sampling", 11, True
    assert run_status.progress(job)["text"] == "5 tokens · token 12 of 256 · letting others pass"

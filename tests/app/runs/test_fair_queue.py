"""The queue before a model is fair and holds no places for those who left."""

import pytest

from k3scope.app.runs.fair_queue import LONGEST, LONGEST_OF_ONE, FairQueue
from k3scope.app.runs.job import Cancelled, Job


def job(prompt: str) -> Job:
    return Job("m", prompt, [1], layers=1, tokens=1)


def taken(queue: FairQueue) -> str | None:
    with queue.next() as found:
        return found and found.prompt


def test_visitors_take_turns_and_each_ones_own_keep_their_order():
    queue = FairQueue("m")
    for visitor, prompt in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")]:
        queue.put(job(prompt), visitor)
    assert [taken(queue) for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_one_visitor_cannot_fill_the_line():
    queue = FairQueue("m")
    for n in range(LONGEST_OF_ONE):
        queue.put(job(f"{n}"), 1)
    with pytest.raises(ValueError, match="of your runs already wait for m"):
        queue.put(job("more"), 1)
    queue.put(job("another visitor's"), 2)


def test_the_line_is_bounded_and_the_running_job_counts():
    queue = FairQueue("m")
    for visitor in range(LONGEST):
        queue.put(job("x"), visitor)
    with queue.next(), pytest.raises(ValueError, match="already wait for m; please try again"):
        queue.put(job("x"), 99)
    queue.put(job("x"), 99)


def test_who_cancels_holds_no_place():
    queue = FairQueue("m")
    jobs = [job(f"{n}") for n in range(LONGEST)]
    for visitor, waiting in enumerate(jobs):
        queue.put(waiting, visitor)
    for waiting in jobs[1:]:
        waiting.cancel()
    queue.put(job("new"), 99)
    assert isinstance(jobs[1].future.exception(0), Cancelled)
    assert [taken(queue) for _ in range(3)] == ["0", "new", None]

"""The line before a model is fair and holds no places for those who left."""

import pytest

from k3scope.app.runs.fair_queue import EACH, WAITING, Line
from k3scope.app.runs.job import Cancelled, Job


def job(prompt: str) -> Job:
    return Job("m", prompt, [1], layers=1, tokens=1)


def taken(line: Line) -> str | None:
    with line.next() as found:
        return found and found.prompt


def test_visitors_take_turns_and_each_ones_own_keep_their_order():
    line = Line("m")
    for visitor, prompt in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (2, "b2")]:
        line.put(job(prompt), visitor)
    assert [taken(line) for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_one_visitor_cannot_fill_the_line():
    line = Line("m")
    for n in range(EACH):
        line.put(job(f"{n}"), 1)
    with pytest.raises(ValueError, match="of your runs already wait for m"):
        line.put(job("more"), 1)
    line.put(job("another visitor's"), 2)


def test_the_line_is_bounded_and_the_running_job_counts():
    line = Line("m")
    for visitor in range(WAITING):
        line.put(job("x"), visitor)
    with line.next(), pytest.raises(ValueError, match="already wait for m; please try again"):
        line.put(job("x"), 99)
    line.put(job("x"), 99)


def test_who_cancels_holds_no_place():
    line = Line("m")
    jobs = [job(f"{n}") for n in range(WAITING)]
    for visitor, waiting in enumerate(jobs):
        line.put(waiting, visitor)
    for waiting in jobs[1:]:
        waiting.cancel()
    line.put(job("new"), 99)
    assert isinstance(jobs[1].future.exception(0), Cancelled)
    assert [taken(line) for _ in range(3)] == ["0", "new", None]

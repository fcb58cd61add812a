"""What the pool makes for a part of the page, without a browser; with one, the tests of the page hold it."""

import threading
import time
from concurrent.futures import Future

import pytest

from k3scope.app.page.kit import background
from k3scope.app.page.kit.background import Background, standing
from k3scope.app.pool.pool import pool
from k3scope.app.pool.task import Refused, Task, error_of
from k3scope.app.runs import run_status
from k3scope.app.runs.job import Job


class Answers:
    """What came of a task."""

    def __init__(self):
        self.said, self.done, self.refused = [], [], []
        self.background = Background(self.said.append)

    def start(self, task: Task) -> None:
        self.background.start(task, self.done.append, self.refused.append)


def test_a_result_is_handed_on_and_an_error_is_a_sentence():
    answers = Answers()
    answers.start(Task("The sum", sum, ([1, 2],)))
    answers.start(Task("The number", int, ("none",)))
    assert answers.done == [3]
    assert answers.refused == ["invalid literal for int() with base 10: 'none'"]


def test_what_the_pool_refuses_is_said(monkeypatch):
    def refuse(lane, task):
        raise Refused("The sum has to wait: 64 others do already.")

    monkeypatch.setattr(pool, "submit", refuse)
    answers = Answers()
    answers.start(Task("The sum", sum, ([1, 2],)))
    assert (answers.done, answers.refused) == ([], ["The sum has to wait: 64 others do already."])


def test_the_opening_of_a_page_waits_a_moment_and_then_goes_on_without(monkeypatch):
    monkeypatch.setattr(pool, "submit", lambda lane, task: task.future)
    monkeypatch.setattr(background, "SOON", 0.05)
    answers, task, start = Answers(), Task("The sum", sum), time.monotonic()
    answers.start(task)
    assert time.monotonic() - start < 5
    assert task.future.cancelled()  # nobody will take it
    assert (answers.done, answers.refused) == ([], [])


def test_what_is_there_in_a_moment_comes_with_the_page(monkeypatch):
    def submit(lane, task):
        threading.Timer(0.05, task.finish, [5]).start()
        return task.future

    monkeypatch.setattr(pool, "submit", submit)
    answers = Answers()
    answers.start(Task("The sum", sum))
    assert answers.done == [5]


@pytest.mark.parametrize(
    ("place", "said"), [(0, "The PNG is on its way"), (3, "The PNG waits for 3 before it")]
)
def test_the_place_in_the_queue_is_said(monkeypatch, place, said):
    monkeypatch.setattr(pool, "place", lambda future: place)
    assert standing(Task("The PNG", sum)) == said


@pytest.mark.parametrize(("place", "said"), [(0, "reading the prompt"), (3, "reading the prompt · place 4")])
def test_a_prompt_that_waits_to_be_read_says_its_place(monkeypatch, place, said):
    monkeypatch.setattr(pool, "place", lambda future: place)
    job = Job("m", "x", [], 1, 0, reading=Future())
    assert run_status.progress(job) == {"text": said}


def test_a_cancelled_future_has_a_sentence():
    future = Future()
    future.cancel()
    assert str(error_of(future)) == "Cancelled."

"""What a process of the pool does for many visitors: turns, bounds, cancel, and what is said at its end."""

import multiprocessing
import os
import time
from concurrent.futures import CancelledError, Future
from functools import partial

import pytest

from k3scope.app.pool import child, lane
from k3scope.app.pool.lane import Lane
from k3scope.app.pool.task import Refused, Task


@pytest.fixture(scope="module")
def process():
    context = multiprocessing.get_context("spawn")
    made = Lane(context, child.begin, ("json", partial(int, 0), 0))
    made.put(first := Task("The start", child.ready, seconds=60))
    first.future.result(60)
    yield made
    made.close()


def put(process, function, *args, visitor=0, seconds=10):
    task = Task("The work", function, args, seconds, visitor)
    process.put(task)
    return task.future


def test_the_work_is_done_elsewhere(process):
    assert put(process, os.getpid).result(10) != os.getpid()


def test_an_error_of_a_task_is_its_own(process):
    with pytest.raises(ValueError, match="invalid literal"):
        put(process, int, "no number").result(10)


def test_what_takes_too_long_is_stopped_and_the_next_is_done(process):
    late, start = put(process, time.sleep, 60, seconds=0.2), time.monotonic()
    with pytest.raises(Refused, match=r"The work took more than 0\.2 seconds and was stopped"):
        late.result(30)
    assert put(process, os.getpid).result(30)
    assert time.monotonic() - start < 30


def test_what_takes_too_much_memory_is_refused_and_the_process_lives_on(process):
    here = put(process, os.getpid).result(10)
    with pytest.raises(Refused, match="The work needs more memory than there is for it here"):
        put(process, bytearray, 2 * child.MEMORY).result(30)
    assert put(process, os.getpid).result(10) == here


def test_a_process_that_dies_is_replaced(process):
    with pytest.raises(Refused, match="more memory"):
        put(process, os._exit, 3).result(30)
    assert put(process, os.getpid).result(30)


def test_who_cancels_frees_the_process(process):
    sleeping, start = put(process, time.sleep, 60), time.monotonic()
    behind = put(process, os.getpid)
    while process.place(behind) != 1:
        time.sleep(0.01)
    time.sleep(0.1)
    assert sleeping.cancel()
    assert behind.result(30)
    assert time.monotonic() - start < 30
    with pytest.raises(CancelledError):
        sleeping.result(0)


def test_visitors_take_turns_and_know_their_place(process):
    holding, order = put(process, time.sleep, 0.5), []
    while process.place(holding):
        time.sleep(0.01)
    futures = {name: put(process, str, name, visitor=int(name[0])) for name in ("1a", "1b", "1c", "2a", "3a")}
    assert {name: process.place(future) for name, future in futures.items()} == {
        "1a": 1,
        "2a": 2,
        "3a": 3,
        "1b": 4,
        "1c": 5,
    }
    for name, future in futures.items():
        future.add_done_callback(lambda _, name=name: order.append(name))
    for future in futures.values():
        future.result(10)
    assert order == ["1a", "2a", "3a", "1b", "1c"]


def test_one_visitor_cannot_fill_the_lane_and_the_lane_is_bounded(process):
    holding = put(process, time.sleep, 60)
    while process.place(holding):
        time.sleep(0.01)
    own = [put(process, os.getpid, visitor=7) for _ in range(lane.WAITING_OF_ONE)]
    with pytest.raises(Refused, match="The work has to wait: 8 of yours do already"):
        put(process, os.getpid, visitor=7)
    others = [put(process, os.getpid, visitor=n) for n in range(100, 100 + lane.WAITING - len(own))]
    with pytest.raises(Refused, match="64 others do already"):
        put(process, os.getpid, visitor=8)
    for future in [*own, *others]:
        future.cancel()  # who leaves holds no place
    assert process.place(put(process, os.getpid, visitor=7)) == 1
    holding.cancel()


def test_a_closed_lane_waits_for_no_work_that_its_pool_left_unended(monkeypatch):
    """A pool that is stopped as it takes a task may never end it: the program must end all the same."""
    monkeypatch.setattr(lane, "STOP_SECONDS", 0.05)
    made = Lane(multiprocessing.get_context("spawn"), child.begin, ("json", partial(int, 0), 0))
    monkeypatch.setattr(made._pool, "schedule", lambda *_, **__: Future())
    left = put(made, os.getpid)
    while made.place(left):
        time.sleep(0.01)
    made.close()
    with pytest.raises(Refused, match="The work was stopped"):
        left.result(10)
    made._thread.shutdown(wait=True)

"""The pool as the rest of the program uses it."""

import os

import pytest

from k3scope.app.pool.pool import READING, Pool, submit
from k3scope.app.pool.task import Refused, Task


def test_without_processes_a_task_is_done_at_once_by_who_asks():
    assert submit(READING, "The work", os.getpid).result(0) == os.getpid()
    failed = submit(READING, "The work", int, "no number")
    assert isinstance(failed.exception(0), ValueError)


@pytest.mark.slow
def test_both_processes_are_forked_from_one_that_has_loaded_torch():
    pool = Pool()
    pool.start("k3scope.app.page.preloaded", dict)
    try:
        pids = {
            lane: pool.submit(lane, Task("The work", os.getppid)).result(120)
            for lane in ("reading", "drawing")
        }
        assert len(set(pids.values())) == 1
        assert os.getpid() not in pids.values()
        modules = pool.submit(READING, Task("The work", eval, ("'torch' in __import__('sys').modules",)))
        assert modules.result(10)
    finally:
        pool.close()
    with pytest.raises(KeyError):
        pool._lanes[READING]


def test_what_is_refused_is_a_value_error():
    assert issubclass(Refused, ValueError)

"""Whatever a visitor sees changes by `dispatch`, one change after another, and every run comes to an end."""

import asyncio

import pytest

from k3scope.app.link.state import State
from k3scope.app.pool.pool import pool
from k3scope.app.pool.task import Refused
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.run_store import Store, StoreError
from k3scope.app.runs.runner import Runner


class Guest:
    """A visitor whose changes are noted, with whether they came by dispatch."""

    def __init__(self, runner):
        self.started, self.inside, self.changes = [], False, []
        self.session = RunSession(State(), runner, self.started.append, self.dispatch)
        self.session.param.watch(self.note, ["busy", "progress", "problem", "result", "history", "baseline"])
        self.session.state.param.watch(self.note, ["run_id", "prompt", "pending"])

    def note(self, *events):
        self.changes += [(event.name, self.inside) for event in events]

    def dispatch(self, act):
        assert not self.inside
        self.inside = True
        try:
            act()
        finally:
            self.inside = False

    def run(self, prompt):
        self.dispatch(lambda: self.session.start("k3-random", prompt))
        while self.started:
            asyncio.run(self.started.pop(0)())


def test_progress_and_result_come_by_dispatch(runner):
    guest = Guest(runner)
    guest.run("one way " * 60)
    assert {"progress", "result", "busy"} <= {name for name, _ in guest.changes}
    assert [name for name, inside in guest.changes if not inside] == []
    assert not guest.session.busy


def test_a_change_that_fails_does_not_keep_the_dock_busy(runner):
    guest, failed = Guest(runner), []

    def dispatch(act):
        """As on the event loop: an error is logged, and nobody waits for it."""
        if act.func.__name__ == "_set_progress" and not failed:
            failed.append("_pending_writes should be non-None when we have a document lock")
        else:
            guest.dispatch(act)

    guest.session._dispatch = dispatch
    guest.run("it goes on " * 60)
    assert failed
    assert not guest.session.busy
    assert guest.session.result.spec.prompt == "it goes on " * 60


class FullStore(Store):
    def put(self, *_):
        raise StoreError("the disk is full")


def test_a_run_that_cannot_be_kept_is_shown_and_that_is_said():
    guest = Guest(Runner(("k3-random",), FullStore()))
    guest.run("no room")
    assert guest.session.result.spec.prompt == "no room"
    assert "its link will" in guest.session.problem
    assert "the disk is full" in guest.session.problem
    assert guest.session.state.run_id == guest.session.result.id


def test_what_the_pool_refuses_is_said_as_it_is(runner, monkeypatch):
    def refuse(lane, task):
        raise Refused("The prompt has to wait: 64 others do already. Try again in a moment.")

    monkeypatch.setattr(pool, "submit", refuse)
    guest = Guest(runner)
    guest.run("one too many")
    assert guest.session.problem == "The prompt has to wait: 64 others do already. Try again in a moment."
    assert not guest.session.busy


@pytest.mark.parametrize(("error", "said"), [
    (MemoryError(), "The run needs more memory than there is for it here."),
    (RuntimeError(), "The run failed: RuntimeError"),
    (RuntimeError("why"), "The run failed: why"),
])  # fmt: skip
def test_an_error_without_words_is_said_in_some(runner, monkeypatch, error, said):
    def fail(*_):
        raise error

    monkeypatch.setattr("k3scope.app.runs.worker.forward", fail)
    guest = Guest(runner)
    guest.run(f"fails with {error!r}")
    assert guest.session.problem == said
    assert not guest.session.busy

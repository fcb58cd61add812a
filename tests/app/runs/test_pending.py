"""What the address says while a run is on its way, and once it is over."""

import asyncio
import threading

import pytest
from visitor import Visitor

from k3scope.app.link import query
from k3scope.app.page.page import link_targets, visit
from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.app.runs.worker import Worker

ZERO = '[{"do":"zero","index":1,"layer":3,"what":"head"}]'
LONG = "a long one, " * 120


class Guest(Visitor):
    """A visitor with an address, and the entries of a browser that follows it."""

    def __init__(self, runner, search=""):
        (self.state, self.address), self.started = visit(search), []
        self.session = RunSession(self.state, runner, self.started.append)
        self.entries, self._bare, self._pushes = [search], search, 0
        self.address.component.param.watch(lambda event: self._write(event.new), "entry")

    def _write(self, entry):
        if entry["pushes"] > self._pushes:
            self.entries[-1:] = [self._bare, ""]
        self.entries[-1], self._bare, self._pushes = entry["search"], entry["bare"], entry["pushes"]

    @property
    def linked(self):
        """What the entry in the window would bring back."""
        return query.parse(self.entries[-1], link_targets()).values

    def until(self, there):
        """Let what was started go on until something is there."""

        async def go_on():
            tasks = [asyncio.ensure_future(start()) for start in self.started]
            while not there():
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()

        asyncio.run(go_on())


@pytest.fixture
def gate(monkeypatch):
    """Passes wait at every point until it is set."""
    gate, plain = threading.Event(), Job.on_point

    def at_point(job, path):
        while not gate.wait(0.01) and not job.cancelled:
            pass
        plain(job, path)

    monkeypatch.setattr(Job, "on_point", at_point)
    yield gate
    gate.set()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs.sqlite")


def test_from_the_start_the_address_says_what_runs_and_in_the_end_it_is_one_entry(gate, store):
    guest = Guest(Runner(("k3-random",), store), "?select=kda")
    guest.session.start("k3-random", "on its way", ZERO)
    assert (guest.linked["prompt"], guest.linked["run_model"], guest.linked["run_id"]) == (
        "on its way",
        "k3-random",
        "",
    )
    assert (guest.linked["interventions"], guest.linked["baseline"]) == (ZERO, "plain")
    guest.until(lambda: guest.linked["run_id"])
    during = guest.entries.copy()
    gate.set()
    guest.settle()
    assert guest.linked["run_id"] == guest.session.result.id
    assert guest.entries == ["?select=kda", *during]


def test_tokens_that_are_to_be_chosen_have_no_name_yet(gate, runner):
    gate.set()
    guest = Guest(runner)
    run = guest.run("go on")
    then = guest.entries.copy()
    guest.session.start("k3-random", "go on", continuation=Continuation((), 3))
    assert guest.entries == then
    guest.settle()
    assert guest.entries[:-1] == then
    assert guest.linked["run_id"] == guest.session.result.id != run.id


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_run_without_a_result_leaves_the_address_as_it_was(gate, store, monkeypatch, end):
    def fails(*_):
        raise ValueError("no room")

    guest = Guest(Runner(("k3-random",), store), "?select=kda")
    if end == "failed":
        monkeypatch.setattr(Worker, "_pass", fails)
    guest.session.start("k3-random", "comes to nothing")
    assert "prompt=comes%20to%20nothing" in guest.entries[-1]
    if end == "cancelled":
        guest.until(lambda: guest.linked["run_id"])
        guest.session.stop()
    guest.settle()
    assert guest.entries == ["?select=kda"]
    assert "no room" in guest.session.problem or guest.session.progress["text"] == "Cancelled."


def test_who_reloads_while_it_runs_follows_the_same_job(gate, store):
    runner = Runner(("k3-random",), store)
    before = Guest(runner)
    before.session.start("k3-random", "reloaded")
    before.until(lambda: before.linked["run_id"])
    after = Guest(runner, before.entries[-1])
    assert after.session.prompt == "reloaded"
    after.session.open()
    after.until(lambda: after.session._job)
    assert after.session._job is before.session._job
    assert runner.queued == {"k3-random": 1}
    before.session.leave()  # its session ends some time later
    gate.set()
    after.settle()
    assert after.session.result.spec.prompt == "reloaded"
    assert after.entries == before.entries
    assert not after.session.problem


def test_a_job_stops_when_the_last_one_leaves(gate, store):
    runner = Runner(("k3-random",), store)
    guests = [Guest(runner) for _ in range(2)]
    for guest in guests:
        guest.session.start("k3-random", "together")
    job = guests[0].session._job
    guests[0].session.stop()
    assert guests[0].session.progress["text"] == "Cancelled."
    assert not job.cancelled
    guests[1].session.stop()
    assert job.cancelled
    guests[1].session.start("k3-random", "together")
    assert guests[1].session._job is not job
    gate.set()
    guests[1].settle()
    assert guests[1].session.result.spec.prompt == "together"
    assert guests[0].session.result is None


@pytest.mark.slow
def test_a_long_prompt_and_its_image_come_back_after_a_restart_in_the_middle(gate, store):
    before = Guest(Runner(store=store))
    before.session.add_sample("ring")
    before.session.start("k3-tiny", LONG)
    assert before.linked["prompt"] == LONG
    before.until(lambda: before.linked["run_id"])
    assert before.linked["prompt"] is None
    gate.set()
    after = Guest(Runner(store=store), before.entries[-1])
    after.session.open()
    after.settle()
    assert after.session.result.spec.prompt == after.session.prompt == LONG
    assert len(after.session.result.images) == 1
    assert not after.session.problem
    before.session.leave()


def test_a_step_in_the_middle_takes_the_run_along_and_leaves_nothing_behind(gate, store):
    guest = Guest(Runner(("k3-random",), store))
    guest.session.start("k3-random", "walk around")
    guest.state.select = "kda"
    assert guest.entries[0] == ""
    assert (guest.linked["select"], guest.linked["prompt"]) == ("kda", "walk around")
    guest.session.stop()
    assert guest.entries == ["", "?select=kda&v=1"]


def test_back_in_the_middle_keeps_the_run_in_the_address(gate, store):
    guest = Guest(Runner(("k3-random",), store), "?select=kda")
    guest.session.start("k3-random", "still there")
    guest.address.read("?select=mla")
    assert (guest.linked["select"], guest.linked["prompt"]) == ("mla", "still there")
    guest.address.read("?select=mla&prompt=another")
    assert guest.session._job.prompt == "another"
    assert not guest.state.pending
    gate.set()
    guest.settle()
    assert guest.session.result.spec.prompt == "another"

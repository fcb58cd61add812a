"""What the address says while a run is on its way, and once it is over."""

import asyncio
import threading

import pytest
from visitor import Visitor

from k3scope.app.link import query
from k3scope.app.page.page import known, visit
from k3scope.app.runs.continuation import Growth
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_session import Runs
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner

ZERO = '[{"do":"zero","index":1,"layer":3,"what":"head"}]'
LONG = "a long one, " * 120


class Guest(Visitor):
    """A visitor with an address, and the entries of a browser that follows it."""

    def __init__(self, runner, search=""):
        (self.state, self.address), self.started = visit(search), []
        self.runs = Runs(self.state, runner, self.started.append)
        self.entries, self._bare, self._pushes = [search], search, 0
        self.address.component.param.watch(lambda event: self._write(event.new), "entry")

    def _write(self, entry):
        if entry["pushes"] > self._pushes:
            self.entries[-1:] = [self._bare, ""]
        self.entries[-1], self._bare, self._pushes = entry["search"], entry["bare"], entry["pushes"]

    @property
    def said(self):
        """What the entry in the window would bring back."""
        return query.parse(self.entries[-1], known()).values

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
    gate, plain = threading.Event(), Job.at_point

    def at_point(job, path):
        while not gate.wait(0.01) and not job.cancelled:
            pass
        plain(job, path)

    monkeypatch.setattr(Job, "at_point", at_point)
    yield gate
    gate.set()


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs.sqlite")


def test_from_the_start_the_address_says_what_runs_and_in_the_end_it_is_one_entry(gate, store):
    guest = Guest(Runner(("k3-random",), store), "?select=kda")
    guest.runs.start("k3-random", "on its way", ZERO)
    assert (guest.said["prompt"], guest.said["ran"], guest.said["run"]) == ("on its way", "k3-random", "")
    assert (guest.said["changes"], guest.said["against"]) == (ZERO, "plain")
    guest.until(lambda: guest.said["run"])
    during = guest.entries.copy()
    gate.set()
    guest.settle()
    assert guest.said["run"] == guest.runs.run.id
    assert guest.entries == ["?select=kda", *during]


def test_tokens_that_are_to_be_chosen_have_no_name_yet(gate, runner):
    gate.set()
    guest = Guest(runner)
    run = guest.run("go on")
    then = guest.entries.copy()
    guest.runs.start("k3-random", "go on", growth=Growth((), 3))
    assert guest.entries == then
    guest.settle()
    assert guest.entries[:-1] == then
    assert guest.said["run"] == guest.runs.run.id != run.id


@pytest.mark.parametrize("end", ["cancelled", "failed"])
def test_a_run_without_a_result_leaves_the_address_as_it_was(gate, store, monkeypatch, end):
    def fails(*_):
        raise ValueError("no room")

    guest = Guest(Runner(("k3-random",), store), "?select=kda")
    if end == "failed":
        monkeypatch.setattr(Runner, "_pass", fails)
    guest.runs.start("k3-random", "comes to nothing")
    assert "prompt=comes%20to%20nothing" in guest.entries[-1]
    if end == "cancelled":
        guest.until(lambda: guest.said["run"])
        guest.runs.stop()
    guest.settle()
    assert guest.entries == ["?select=kda"]
    assert "no room" in guest.runs.problem or guest.runs.progress["text"] == "Cancelled."


def test_who_reloads_while_it_runs_follows_the_same_job(gate, store):
    runner = Runner(("k3-random",), store)
    before = Guest(runner)
    before.runs.start("k3-random", "reloaded")
    before.until(lambda: before.said["run"])
    after = Guest(runner, before.entries[-1])
    assert after.runs.prompt == "reloaded"
    after.runs.open()
    assert after.runs._job is before.runs._job
    assert runner.on_their_way == {"k3-random": 1}
    before.runs.leave()  # its session ends some time later
    gate.set()
    after.settle()
    assert after.runs.run.spec.prompt == "reloaded"
    assert after.entries == before.entries
    assert not after.runs.problem


def test_a_job_stops_when_the_last_one_leaves(gate, store):
    runner = Runner(("k3-random",), store)
    guests = [Guest(runner) for _ in range(2)]
    for guest in guests:
        guest.runs.start("k3-random", "together")
    job = guests[0].runs._job
    guests[0].runs.stop()
    assert guests[0].runs.progress["text"] == "Cancelled."
    assert not job.cancelled
    guests[1].runs.stop()
    assert job.cancelled
    guests[1].runs.start("k3-random", "together")
    assert guests[1].runs._job is not job
    gate.set()
    guests[1].settle()
    assert guests[1].runs.run.spec.prompt == "together"
    assert guests[0].runs.run is None


def test_a_long_prompt_and_its_image_come_back_after_a_restart_in_the_middle(gate, store):
    before = Guest(Runner(store=store))
    before.runs.add_sample("ring")
    before.runs.start("k3-tiny", LONG)
    assert before.said["prompt"] == LONG
    before.until(lambda: before.said["run"])
    assert before.said["prompt"] is None
    gate.set()
    after = Guest(Runner(store=store), before.entries[-1])
    after.runs.open()
    after.settle()
    assert after.runs.run.spec.prompt == after.runs.prompt == LONG
    assert len(after.runs.run.images) == 1
    assert not after.runs.problem
    before.runs.leave()


def test_a_step_in_the_middle_takes_the_run_along_and_leaves_nothing_behind(gate, store):
    guest = Guest(Runner(("k3-random",), store))
    guest.runs.start("k3-random", "walk around")
    guest.state.select = "kda"
    assert guest.entries[0] == ""
    assert (guest.said["select"], guest.said["prompt"]) == ("kda", "walk around")
    guest.runs.stop()
    assert guest.entries == ["", "?select=kda"]


def test_back_in_the_middle_keeps_the_run_in_the_address(gate, store):
    guest = Guest(Runner(("k3-random",), store), "?select=kda")
    guest.runs.start("k3-random", "still there")
    guest.address.read("?select=mla")
    assert (guest.said["select"], guest.said["prompt"]) == ("mla", "still there")
    guest.address.read("?select=mla&prompt=another")
    assert guest.runs._job.prompt == "another"
    assert not guest.state.underway
    gate.set()
    guest.settle()
    assert guest.runs.run.spec.prompt == "another"

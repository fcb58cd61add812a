"""A visitor can have the own runs forgotten, and a run goes on when it cannot be kept."""

import hashlib

import pytest
from visitor import Visitor

from k3scope.app.runs import run_status
from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_store import Store, StoreError
from k3scope.app.runs.runner import Runner

TOKEN = "0123456789abcdef" * 2


class FullDisk(Store):
    """A store that has no room until it is given some."""

    full = True

    def put(self, *args):
        if self.full:
            raise StoreError("the disk is full")
        super().put(*args)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def runner(store) -> Runner:
    return Runner(("k3-random",), store=store)


def visitor(runner, owner_token=TOKEN, **link) -> Visitor:
    guest = Visitor(runner, **link)
    guest.session.set_owner(owner_token)
    return guest


def test_the_store_knows_a_hash_of_the_token_and_nothing_else_is_one():
    session = visitor(Runner(("k3-random",))).session
    assert session.owner == hashlib.sha256(TOKEN.encode()).hexdigest()
    for wrong in ("", "0" * 31, "0" * 33, "G" * 32, "0" * 32 + "\n"):
        session.set_owner(wrong)
    assert session.owner == hashlib.sha256(TOKEN.encode()).hexdigest()


def test_forgetting_removes_the_runs_and_clears_the_page(runner, store):
    guest = visitor(runner)
    runs = [guest.run("first"), guest.run("second")]
    guest.session.add_sample("ring")
    other = visitor(runner, "f" * 32).run("of another")
    guest.session.forget()
    guest.settle()
    assert [run.spec for run in store.runs()] == [other.spec]
    assert [runner.result(run.id) or runner.full_run(run.id) or runner.spec(run.id) for run in runs] == [
        None
    ] * 2
    assert runner.result(other.id) is other
    session, state = guest.session, guest.state
    assert (session.result, session.baseline, session.history, session.images) == (None, None, [], [])
    assert (session.prompt, session.busy, session.problem) == ("", False, "")
    assert session.progress == {"text": "2 runs removed from this server."}
    assert (state.run_id, state.prompt, state.run_model, state.weights, state.pending) == (
        "",
        None,
        "",
        "",
        {},
    )


def test_a_run_that_two_visitors_made_stays_until_both_forget_it(runner, store):
    first, second = visitor(runner), visitor(runner, "f" * 32)
    run = first.run("the same")
    assert second.run("the same") is run  # from memory: nothing is put
    first.session.forget()
    first.settle()
    assert first.session.progress == {"text": run_status.NOTHING_KEPT}
    assert store.get(run.id) == run.spec
    assert runner.result(run.id) is run
    second.session.forget()
    second.settle()
    assert (store.get(run.id), runner.result(run.id)) == (None, None)


def test_who_opens_a_link_does_not_own_the_run_unless_nobody_does(runner, store):
    maker = visitor(runner)
    run = maker.run("shared")
    link = maker.state.linked()

    def opened_and_forgotten():
        """What is kept once another visitor has opened the link, and once that one has forgotten."""
        reader = visitor(runner, "f" * 32, **link)
        reader.session.open()
        reader.settle()
        kept = store.get(run.id)
        reader.session.forget()
        reader.settle()
        return kept, store.get(run.id)

    assert opened_and_forgotten() == (run.spec, run.spec)
    maker.session.forget()
    maker.settle()
    assert store.get(run.id) is None
    # now it is nobody's; the address holds the prompt
    assert opened_and_forgotten() == (run.spec, None)


def test_a_visitor_without_a_token_clears_the_page_only(runner, store):
    guest = Visitor(runner)
    run = guest.run("nobody's")
    guest.session.forget()
    guest.settle()
    assert guest.session.history == []
    assert store.get(run.id) == run.spec


def test_runs_that_cannot_be_removed_are_said_and_stay(runner, store, monkeypatch):
    guest = visitor(runner)
    run = guest.run("stays")

    def locked(owner):
        raise StoreError("another program has locked it")

    monkeypatch.setattr(store, "forget", locked)
    guest.session.forget()
    guest.settle()
    assert guest.session.problem == run_status.NOT_FORGOTTEN.format(why="another program has locked it")
    assert guest.session.history == [run]
    assert not guest.session.busy


def test_forgetting_stops_what_runs_and_nothing_is_kept_of_it(runner, store):
    guest = visitor(runner)
    guest.session.start("k3-random", "on its way")
    job = guest.session._job
    guest.session.forget()
    guest.settle()
    assert job.cancelled
    runner.close()
    runner._workers["k3-random"]._thread.shutdown(wait=True)
    assert guest.session.result is None
    assert runner.result(job.spec(runner._workers["k3-random"].model.weights).id) is None


def test_a_run_goes_on_when_it_cannot_be_kept_and_is_kept_when_it_is_run_again():
    store = FullDisk()
    guest = visitor(Runner(("k3-random",), store=store))
    run = guest.run("not kept")
    assert run.not_kept == "the disk is full"
    assert run_status.not_kept(run).endswith("only what the address itself holds (the disk is full).")
    assert len(store) == 0
    store.full = False
    again = guest.run("not kept")
    assert again.id == run.id
    assert (again.not_kept, run_status.not_kept(again)) == ("", "")
    assert store.get(run.id) == run.spec


def test_a_run_that_was_not_kept_is_forgotten_too():
    runner = Runner(("k3-random",), store=FullDisk())
    guest = visitor(runner)
    run = guest.run("only in memory")
    assert runner.spec(run.id) == run.spec
    guest.session.forget()
    guest.settle()
    assert runner.spec(run.id) is None
    assert guest.session.progress == {"text": "1 run removed from this server."}


@pytest.mark.parametrize(
    ("in_memory", "bounds", "words"),
    [
        (False, Retention(), ["in a file on this server", "20,000 runs and 512 MB"]),
        (True, Retention(64), ["until it is restarted", "64 MB"]),
        (False, Retention(days=1), ["None is kept longer than 1 day after"]),
        (False, Retention(days=30), ["None is kept longer than 30 days after"]),
    ],
)
def test_what_is_kept_is_said_with_the_bounds_of_the_store(in_memory, bounds, words):
    text = " ".join(run_status.what_is_kept(in_memory, bounds))
    assert [word for word in words if word not in text] == []
    assert ("longer than" in text) is bool(bounds.days)

"""Tokens added to a prompt one by one: that steps agree with one pass over all, and how links keep them."""

import pytest
from visitor import Visitor

from k3scope.app.link import query
from k3scope.app.runs.continuation import Growth
from k3scope.app.runs.job import Cancelled
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.model.interventions.intervention import Intervention, dumps
from k3scope.model.runs.generate import Sampling

ZERO = dumps([Intervention("sublayer", "zero", layer=1, place="FFN")])


def grown(runner, *growth, changes="", prompt="1234"):
    return runner.submit("k3-random", prompt, (), changes, Growth(*growth)).future.result()


def test_tokens_step_by_step_are_those_of_one_go(runner):
    once = grown(runner, (), 3, Sampling(0.8, seed=5))
    more = ()
    for _ in range(3):
        more = grown(runner, more, 1, Sampling(0.8, seed=5)).spec.more
    assert more == once.spec.more
    assert grown(runner, (), 3, Sampling(0.8, seed=6)).spec.more != more


def test_the_likeliest_is_taken_and_steps_agree_with_the_pass_over_all(runner):
    run = grown(runner, (), 5)
    assert len(run.pieces) == 4 + 5
    assert run.first_new == 4
    assert (run.readings.tokens.rank[4:] == 0).all()
    assert 0 < run.step_error < 1e-4
    again = grown(runner, run.spec.more)
    assert again.spec == run.spec


def test_a_run_that_a_link_brings_back_is_stepped_through_too():
    runner = Runner(("k3-random",))
    run = grown(runner, (7, 8, 9), prompt="from a link")
    assert [piece.id for piece in run.pieces[-3:]] == [7, 8, 9]
    assert 0 <= run.step_error < 1e-4
    runner.close()


def test_with_changes_every_token_is_a_pass_of_its_own(runner):
    run = grown(runner, (), 2, changes=ZERO)
    assert run.step_error is None
    assert len(run.spec.more) == 2
    one = grown(runner, run.spec.more[:1], 1, changes=ZERO)
    assert one.spec.more == run.spec.more


def test_growing_stops_at_the_limit_and_at_unknown_tokens(runner):
    with pytest.raises(ValueError, match="takes at most 2,048"):
        runner.submit("k3-random", "x" * 2000, (), "", Growth((), 100))
    with pytest.raises(ValueError, match="tokens 0 to"):
        runner.submit("k3-random", "x", (), "", Growth((99_999,)))


def test_growing_can_be_cancelled(runner):
    job = runner.submit("k3-random", "never ends", (), "", Growth((), 1000))
    while job.stage != "choosing":
        assert not job.future.done()
    job.cancel()
    with pytest.raises(Cancelled):
        job.future.result(20)
    assert job.added < 1000


def test_the_id_of_a_run_without_added_tokens_stays_and_the_store_keeps_them():
    plain, more = RunSpec("m", "w", "p"), RunSpec("m", "w", "p", more=(1, 2))
    assert "more" not in plain.canonical
    assert plain.id != more.id
    store = Store()
    store.put(more)
    assert store.get(more.id) == more


def test_a_grown_run_is_in_the_link_and_back_leads_to_the_run_before(runner):
    visitor = Visitor(runner)
    visitor.runs.start("k3-random", "link me")
    visitor.settle()
    before = visitor.state.linked()
    visitor.runs.start("k3-random", "link me", growth=Growth((), 2))
    visitor.settle()
    more = visitor.runs.run.spec.more
    text = query.format(visitor.state.linked())
    assert f"more={','.join(map(str, more))}" in text
    other = Visitor(runner, prompt="link me", more=list(more))
    other.runs.open()
    other.settle()
    assert other.runs.run.id == visitor.runs.run.id == other.state.run
    visitor.state.param.update(**before)
    visitor.settle()
    assert visitor.runs.run.spec.more == ()


def test_many_added_tokens_stay_out_of_the_link_when_the_store_has_them(runner):
    run = grown(runner, tuple(range(255)) + (7,) * 45)
    values = {"prompt": "1234", "more": list(run.spec.more), "run": run.id}
    short = query.shareable(values)
    assert short["prompt"] == "1234"
    visitor = Visitor(runner, **{**short, "more": list(short["more"])})
    visitor.runs.open()
    visitor.settle()
    assert visitor.runs.run.spec == run.spec

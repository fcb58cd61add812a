"""Tokens added to a prompt one by one: that steps agree with one pass over all, and how links keep them."""

import pytest
from visitor import Visitor

from k3scope.app.link import query
from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.job import Cancelled
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.model.interventions.intervention import Intervention, dumps
from k3scope.model.runs.generate import Sampling

ZERO = dumps([Intervention("sublayer", "zero", layer=1, place="FFN")])


def continued(runner, *continuation, interventions="", prompt="1234"):
    return runner.submit("k3-random", prompt, (), interventions, Continuation(*continuation)).future.result()


def test_tokens_step_by_step_are_those_of_one_go(runner):
    once = continued(runner, (), 3, Sampling(0.8, seed=5))
    more = ()
    for _ in range(3):
        more = continued(runner, more, 1, Sampling(0.8, seed=5)).spec.generated_ids
    assert more == once.spec.generated_ids
    assert continued(runner, (), 3, Sampling(0.8, seed=6)).spec.generated_ids != more


def test_the_likeliest_is_taken_and_steps_agree_with_the_pass_over_all(runner):
    run = continued(runner, (), 5)
    assert len(run.tokens) == 4 + 5
    assert run.first_generated == 4
    assert (run.readings.tokens.rank[4:] == 0).all()
    assert 0 < run.step_error < 1e-4
    again = continued(runner, run.spec.generated_ids)
    assert again.spec == run.spec


def test_a_run_that_a_link_brings_back_is_stepped_through_too():
    runner = Runner(("k3-random",))
    run = continued(runner, (7, 8, 9), prompt="from a link")
    assert [piece.id for piece in run.tokens[-3:]] == [7, 8, 9]
    assert 0 <= run.step_error < 1e-4
    runner.close()


def test_with_changes_every_token_is_a_pass_of_its_own(runner):
    run = continued(runner, (), 2, interventions=ZERO)
    assert run.step_error is None
    assert len(run.spec.generated_ids) == 2
    one = continued(runner, run.spec.generated_ids[:1], 1, interventions=ZERO)
    assert one.spec.generated_ids == run.spec.generated_ids


def test_growing_stops_at_the_limit_and_at_unknown_tokens(runner):
    with pytest.raises(ValueError, match="takes at most 2,048"):
        runner.submit("k3-random", "x" * 2000, (), "", Continuation((), 100))
    with pytest.raises(ValueError, match="tokens 0 to"):
        runner.submit("k3-random", "x", (), "", Continuation((99_999,)))


def test_growing_can_be_cancelled(runner):
    job = runner.submit("k3-random", "never ends", (), "", Continuation((), 1000))
    while job.stage != "sampling":
        assert not job.future.done()
    job.cancel()
    with pytest.raises(Cancelled):
        job.future.result(20)
    assert job.sampled < 1000


def test_the_id_of_a_run_without_added_tokens_stays_and_the_store_keeps_them():
    plain, more = RunSpec("m", "w", "p"), RunSpec("m", "w", "p", generated_ids=(1, 2))
    assert "more" not in plain.canonical
    assert plain.id != more.id
    store = Store()
    store.put(more)
    assert store.get(more.id) == more


def test_a_grown_run_is_in_the_link_and_back_leads_to_the_run_before(runner):
    visitor = Visitor(runner)
    visitor.session.start("k3-random", "link me")
    visitor.settle()
    before = visitor.state.linked()
    visitor.session.start("k3-random", "link me", continuation=Continuation((), 2))
    visitor.settle()
    more = visitor.session.result.spec.generated_ids
    text = query.format(visitor.state.linked())
    assert f"more={','.join(map(str, more))}" in text
    other = Visitor(runner, prompt="link me", generated_ids=list(more))
    other.session.open()
    other.settle()
    assert other.session.result.id == visitor.session.result.id == other.state.run_id
    visitor.state.param.update(**before)
    visitor.settle()
    assert visitor.session.result.spec.generated_ids == ()


def test_many_added_tokens_stay_out_of_the_link_when_the_store_has_them(runner):
    run = continued(runner, tuple(range(255)) + (7,) * 45)
    values = {"prompt": "1234", "generated_ids": list(run.spec.generated_ids), "run_id": run.id}
    short = query.shareable(values)
    assert short["prompt"] == "1234"
    visitor = Visitor(runner, **{**short, "generated_ids": list(short["generated_ids"])})
    visitor.session.open()
    visitor.settle()
    assert visitor.session.result.spec == run.spec

"""What one visitor runs, and how it follows the link."""

import pytest
from visitor import Visitor

from k3scope.app.link.fields import DEFAULTS
from k3scope.app.page.dock.result_message import result_message
from k3scope.app.page.kit.token_chip import chip
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_status import summary
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runnable_model import TOKEN_LIMIT
from k3scope.app.runs.runner import Runner


def test_a_run_fills_the_state_in_one_step(runner):
    visitor, steps = Visitor(runner), []
    visitor.state.param.watch(lambda *events: steps.append({e.name for e in events}), list(DEFAULTS))
    visitor.session.start("k3-random", "one step")
    assert visitor.session.busy
    visitor.settle()
    run = visitor.session.result
    assert not visitor.session.busy
    assert (visitor.state.prompt, visitor.state.run_model) == ("one step", "k3-random")
    assert (visitor.state.run_id, visitor.state.weights) == (run.id, run.spec.weights)
    assert steps == [{"prompt", "run_model", "run_id", "weights"}]
    assert "random weights" in visitor.session.progress["text"]


@pytest.mark.parametrize("prompt", ["linked", ""])
def test_a_link_with_a_prompt_runs_once_and_only_when_opened(runner, prompt):
    visitor = Visitor(runner, prompt=prompt)
    assert not visitor.started
    visitor.session.open()
    assert len(visitor.started) == 1
    visitor.settle()
    assert visitor.session.result.spec.prompt == prompt
    assert not visitor.started
    assert visitor.state.run_model == "k3-random"
    assert visitor.state.run_id == visitor.session.result.id


def test_going_back_shows_the_run_of_then(runner):
    visitor = Visitor(runner)
    for prompt in ("first", "second"):
        visitor.session.start("k3-random", prompt)
        visitor.settle()
        if prompt == "first":
            then = visitor.state.linked()
    visitor.state.param.update(**then)
    visitor.settle()
    assert visitor.session.result.spec.prompt == visitor.session.prompt == "first"
    visitor.state.param.update(prompt=None, run_id="", run_model="", weights="")
    assert visitor.session.result is None


def test_leaving_while_a_run_is_going_drops_it(runner):
    visitor = Visitor(runner)
    visitor.session.start("k3-random", "y" * 300)
    job = visitor.session._job
    visitor.state.param.update(prompt="elsewhere")
    assert job.cancelled
    visitor.settle()
    assert visitor.session.result.spec.prompt == "elsewhere"
    assert not visitor.session.busy


def test_cancel_says_so_and_keeps_what_was_typed(runner):
    visitor = Visitor(runner)
    visitor.session.start("k3-random", "z" * 500)
    visitor.session.stop()
    visitor.settle()
    assert visitor.session.progress["text"] == "Cancelled."
    assert visitor.session.prompt == "z" * 500
    assert visitor.session.result is None
    assert visitor.state.prompt is None


def test_a_prompt_that_is_too_long_is_said_and_leaves_the_run_on_show(runner):
    visitor = Visitor(runner)
    visitor.session.start("k3-random", "short")
    visitor.settle()
    visitor.session.start("k3-random", "x" * (TOKEN_LIMIT + 1))
    assert "2,049 tokens" in visitor.session.problem
    assert not visitor.session.busy
    assert visitor.session.result.spec.prompt == "short"


def test_a_stored_run_brings_its_prompt_back(tmp_path):
    store = tmp_path / "runs.sqlite"
    first = Visitor(Runner(("k3-random",), store=Store(store)))
    first.session.start("k3-random", "kept over a restart")
    first.settle()
    later = Visitor(Runner(("k3-random",), store=Store(store)), run_id=first.state.run_id)
    later.session.open()
    later.settle()
    assert later.session.result.spec.prompt == later.session.prompt == "kept over a restart"
    assert not later.session.problem
    assert later.state.prompt is None  # to name it would be a step that traps Back
    later.session.start("k3-random", "another")
    later.settle()
    assert later.state.prompt == "another"


def test_an_unknown_run_says_what_is_missing(runner):
    visitor = Visitor(runner, run_id="aaaaaaaaaaaa")
    visitor.session.open()
    visitor.settle()
    assert "aaaaaaaaaaaa" in visitor.session.problem
    assert "prompt is not in the link" in visitor.session.problem
    assert visitor.session.result is None
    assert not visitor.session.busy


def test_other_weights_are_said_and_the_link_is_left_as_it_was(runner):
    visitor = Visitor(
        runner, prompt="w", weights="0123456789ab", run_id="aaaaaaaaaaaa", run_model="k3-random"
    )
    visitor.session.open()
    visitor.settle()
    assert "0123456789ab" in visitor.session.problem
    assert visitor.session.result.spec.weights in visitor.session.problem
    assert visitor.state.run_id == "aaaaaaaaaaaa"


def test_a_stored_run_of_other_weights_says_so(runner):
    spec = RunSpec("k3-random", "0123456789ab", "trained since")
    runner._cache.register(spec, [])
    visitor = Visitor(runner, run_id=spec.id)
    visitor.session.open()
    visitor.settle()
    assert visitor.session.result.spec.prompt == "trained since"
    assert "0123456789ab" in visitor.session.problem
    visitor.state.param.update(select="kda")
    assert "0123456789ab" in visitor.session.problem


def test_a_wrong_run_id_beside_a_prompt_does_not_matter(runner):
    visitor = Visitor(runner, prompt="w", run_id="aaaaaaaaaaaa")
    visitor.session.open()
    visitor.settle()
    assert visitor.session.result.spec.prompt == "w"
    assert visitor.state.run_id == "aaaaaaaaaaaa"  # to correct it would trap Back


def test_a_model_that_does_not_run_here_is_said_and_not_replaced(runner):
    visitor = Visitor(runner, prompt="m", run_model="kimi-k3")
    visitor.session.open()
    assert "kimi-k3" in visitor.session.problem
    assert not visitor.started
    assert visitor.session.prompt == "m"


def test_tokens_are_text_and_marked(runner):
    tokenizer = runner.tokenizer("k3-random")
    chips = [chip(p) for p in tokenizer.tokens([*"a <é\n".encode(), 2032])]
    assert chips == [
        [97, "a", ""],
        [32, "␣", "space"],
        [60, "<", ""],
        [195, "\\xc3", "byte"],
        [169, "\\xa9", "byte"],
        [10, "\\n", "space"],
        [2032, "[BOS]", "special"],
    ]


def test_the_result_holds_all_tokens_and_eight_next_ones(runner):
    visitor = Visitor(runner)
    visitor.session.start("k3-random", "365")
    visitor.settle()
    shown = result_message(visitor.session.result)
    assert [chip[0] for chip in shown["chips"]] == list(b"365")
    assert len(shown["next"]) == 8
    assert shown["badge"]["text"] == "random weights"
    assert summary(visitor.session.result).startswith("k3-random · random weights · 3 tokens")


ZERO = '[{"do":"zero","index":1,"layer":3,"what":"head"}]'


def test_a_run_with_changes_is_compared_with_the_plain_one(runner):
    visitor = Visitor(runner)
    visitor.session.start("k3-random", "changed", ZERO)
    visitor.settle()
    run = visitor.session.result
    assert run.spec.interventions == visitor.state.interventions == ZERO
    assert visitor.state.baseline == "plain"
    assert visitor.session.baseline.spec.interventions == ""
    assert visitor.session.baseline.spec.prompt == "changed"
    assert "1 change" in summary(run)
    visitor.session.start("k3-random", "changed", "")
    visitor.settle()
    assert (visitor.state.interventions, visitor.state.baseline) == ("", "")
    assert visitor.session.baseline is None


def test_a_link_brings_changes_and_comparison_back(runner):
    visitor = Visitor(runner, prompt="linked changes", interventions=ZERO, baseline="plain")
    visitor.session.open()
    visitor.settle()
    assert visitor.session.result.spec.interventions == ZERO
    assert visitor.session.baseline.spec.interventions == ""
    assert visitor.state.run_id == visitor.session.result.id


def test_a_visitor_compares_with_an_earlier_run(runner):
    visitor = Visitor(runner)
    for prompt in ("earlier", "later"):
        visitor.session.start("k3-random", prompt)
        visitor.settle()
    later, earlier = visitor.session.history
    visitor.state.baseline = earlier.id
    visitor.settle()
    assert visitor.session.result is later
    assert visitor.session.baseline is earlier
    visitor.state.baseline = "aaaaaaaaaaaa"
    visitor.settle()
    assert visitor.session.baseline is None
    assert "not known here" in visitor.session.problem


def test_a_change_that_does_not_fit_is_said_and_the_run_on_show_stays(runner):
    visitor = Visitor(runner)
    visitor.session.start("k3-random", "12345")
    visitor.settle()
    run = visitor.session.result
    visitor.session.start("k3-random", "12345", '[{"do":"zero","tokens":[40],"what":"token"}]')
    assert "tokens 0 to 4" in visitor.session.problem
    assert visitor.session.result is run
    assert visitor.state.interventions == ""


def test_a_run_id_alone_brings_its_model_and_its_changes_back(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    first = Visitor(Runner(("k3-tiny", "k3-random"), store=store))
    first.session.start("k3-random", "by its id", ZERO)
    first.settle()
    later = Visitor(Runner(("k3-tiny", "k3-random"), store=store), run_id=first.state.run_id)
    later.session.open()
    later.settle()
    assert later.session.result.spec == first.session.result.spec
    assert not later.session.problem


def test_a_run_that_is_asked_for_before_the_link_is_opened_is_not_cancelled_by_it(runner):
    """The page opens its link some time after it is drawn; who presses Run in between has decided."""
    for link in ({}, {"prompt": "of the link", "run_model": "k3-random"}):
        visitor = Visitor(runner, **link)
        visitor.session.start("k3-random", "pressed at once")
        visitor.session.open()
        visitor.settle()
        assert visitor.session.result.spec.prompt == "pressed at once"
        assert visitor.state.prompt == "pressed at once"

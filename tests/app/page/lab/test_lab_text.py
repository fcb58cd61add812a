"""The texts of the Lab, and what its form for interventions means."""

from dataclasses import replace

import pytest

from k3scope.app.lab import intervention_form
from k3scope.app.lab.lab_views import VIEWS, Selection
from k3scope.app.page.lab import lab_text
from k3scope.app.page.lab.baseline_menu import name_of_baseline
from k3scope.model.config import Config
from k3scope.model.interventions.intervention import Intervention
from k3scope.model.presets import preset

TEXT = "words about words"
ZERO = '[{"do":"zero","layer":3,"place":"attention","what":"sublayer"}]'


@pytest.fixture(scope="module")
def runs(runner):
    return [runner.submit("k3-random", TEXT, (), do).future.result(timeout=60) for do in ("", ZERO)]


def test_the_report_of_an_intervention_says_where_the_runs_part(runner, runs):
    plain, changed = (runner.full_run(run.id) for run in runs)
    numbers = dict(lab_text.report(changed, plain, runs[1].tokens))
    assert numbers["first layer that differs"] == "3"
    assert numbers["tokens in common"] == "7 of 7"
    assert numbers["loss"].endswith("nats")


def test_the_run_to_compare_with_is_called_by_what_sets_it_apart(runs):
    plain, changed = runs
    longer = replace(plain, spec=replace(plain.spec, prompt="x" * 99))
    assert name_of_baseline(changed, plain) == "the run without changes"
    assert name_of_baseline(plain, changed) == f"“{TEXT}”, 1 change"
    assert name_of_baseline(plain, longer) == f"“{'x' * 59}…”"


def test_a_run_does_not_differ_from_itself(runner, runs):
    full_run = runner.full_run(runs[0].id)
    numbers = dict(lab_text.report(full_run, full_run, runs[0].tokens))
    assert numbers["first layer that differs"] == "none"
    assert numbers["another likeliest next token"] == "0"
    assert numbers["experts that both chose"] == "100%"


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_its_numbers(runner, runs, view):
    layers = VIEWS[view].layers(runs[0].config)
    numbers = dict(
        lab_text.facts(runner.full_run(runs[0].id), view, Selection(layers[0] if layers else None, 0, 3))
    )
    if view == "routing":
        assert numbers["choices"] == "7 tokens × 3 = 21"
    if view == "memory":
        assert float(numbers["recurrent = chunked = step by step, largest error"]) < 1e-5
    assert bool(numbers) == (view != "tokens")


def test_the_tokens_say_that_nothing_predicts_the_first(runs):
    tokens = lab_text.tokens(runs[0])
    assert tokens["rows"][0] == ["w", "", ord("w"), None, None, None]
    assert 0 < tokens["rows"][1][3] < 1
    assert tokens["badge"]["text"] == "random weights"


def test_what_is_expected_marks_what_came(runner, runs):
    full_run = runner.full_run(runs[0].id)
    expected = lab_text.expected(full_run, 3, runner.tokenizer("k3-random").token, count=2048)
    assert len(expected["rows"]) == 2048
    assert [row[1] for row in expected["rows"] if row[4]] == [" w"]


def test_a_filled_form_is_an_intervention():
    form = {"what": "head", "do": "noise", "layer": "3", "index": "2", "tokens": "0, 4-6", "amount": "0.5"}
    assert intervention_form.read(form) == Intervention(
        "head", "noise", 3, 2, tokens=(0, 4, 5, 6), amount=0.5
    )
    form = {"what": "decay", "do": "clamp", "layer": "", "index": "", "low": "0.5", "high": "1"}
    assert intervention_form.read(form) == Intervention("decay", "clamp", low=0.5)


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"what": "head", "do": "zero", "layer": "x", "index": "0"}, "whole number"),
        ({"what": "head", "do": "zero", "layer": "3"}, "index is missing"),
        ({"what": "token", "do": "zero", "tokens": "a"}, "numbers such as"),
        ({"what": "decay", "do": "clamp", "low": "nan"}, "shares"),
        ({}, "cannot change"),
    ],
)
def test_a_form_that_means_nothing_says_why(form, why):
    with pytest.raises(ValueError, match=why):
        intervention_form.read(form)


def test_the_form_offers_what_a_model_has():
    config: Config = preset("k3-random")
    options = intervention_form.options(config)
    assert [row["heads"] for row in options["layers"]] == [5, 5, 5, 6, 5, 5, 5, 6, 6]
    assert options["layers"][0]["experts"] == 0
    assert options["layers"][0]["attention"] == 0  # layer 0 reads the embedding as it is
    assert "mix" not in intervention_form.options(preset("kimi-linear-48b"))["kinds"]

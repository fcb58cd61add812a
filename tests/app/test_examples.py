"""The prompts that the page offers: each is a link, runs, and has the view that it names."""

import pytest

from k3scope.app.examples import Example, example_of, examples
from k3scope.app.lab.lab_views import VIEWS, Selection, chosen_layer, draw
from k3scope.app.link import query
from k3scope.app.page.page import link_targets
from k3scope.app.runs.runnable_model import TOKEN_LIMIT
from k3scope.model.interventions.intervention import loads
from k3scope.model.runs.lab import lab

NAMES = [example.name for example in examples()]


def test_there_are_a_dozen_and_they_show_every_view_of_the_lab():
    assert len(examples()) >= 12
    assert len(set(NAMES)) == len(NAMES)
    assert all(example_of(e.model, e.prompt, e.values["interventions"]) is e for e in examples())
    assert {example.values["lab_view"].partition(":")[0] for example in examples()} == set(VIEWS)


@pytest.mark.parametrize("example", examples(), ids=NAMES)
def test_its_link_says_the_same_as_one_click(example):
    parsed = query.parse(example.link, link_targets())
    assert not parsed.problems
    assert {name: parsed.values[name] for name in example.values} == example.values
    assert parsed.values["prompt"] == example.prompt


@pytest.mark.parametrize("example", examples(), ids=NAMES)
def test_it_runs_and_what_it_names_can_be_drawn(example):
    values = example.values
    run = lab(example.prompt, example.model, loads(values["interventions"]))
    name, _, layer = values["lab_view"].partition(":")
    view = VIEWS[name]
    assert 2 <= run.length <= TOKEN_LIMIT
    if layer:  # it is one that the view has
        assert chosen_layer(view, run.config, int(layer)) == int(layer)
    token = run.length - 1 if values["token"] is None else values["token"]
    head = (values["head"] or 0) if view.heads(run.config) else None
    selection = Selection(chosen_layer(view, run.config, int(layer or -1)), head, token)
    for slot in view.slots:
        chosen = [c for c in slot.choices if c.key in values["plots"]] or slot.choices[:1]
        assert draw(run, slot, chosen[0], selection).image.size
    keys = {c.key for slot in view.slots for c in slot.choices}
    assert set(values["plots"]) <= keys


def test_a_run_knows_whether_it_is_an_example():
    first = examples()[0]
    assert example_of(first.model, first.prompt, first.values["interventions"]) is first
    assert example_of(first.model, first.prompt + "!", "") is None


def test_a_view_that_cannot_be_read_is_an_error():
    with pytest.raises(ValueError, match=r"Wrong: .*view of the Lab"):
        _ = Example("Wrong", "a", "lab=nowhere", "nothing").values

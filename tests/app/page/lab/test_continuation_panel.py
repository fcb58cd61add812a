"""Going on from a run on the page: where a prompt is cut, and what the browser may ask for."""

import pytest
from visitor import Visitor

from k3scope.app.page.lab import continuation_panel


class Guest(Visitor):
    """A visitor who has run a prompt."""

    def __init__(self, runner, prompt):
        super().__init__(runner)
        self.run(prompt)

    def ask(self, **data):
        assert continuation_panel.on_message(self.session, data)
        self.settle()
        return self.session.result


def ids(run):
    return [token.id for token in run.tokens]


def test_a_chosen_token_follows_the_one_it_was_offered_after(runner):
    visitor = Guest(runner, "1234")
    first = visitor.ask(append=65, after=3)
    assert (first.spec.prompt, first.spec.generated_ids) == ("1234", (65,))
    assert visitor.ask(append=66, after=4).spec.generated_ids == (65, 66)
    assert visitor.ask(append=67, after=4).spec.generated_ids == (65, 67)
    other = visitor.ask(append=68, after=1)
    assert (other.spec.prompt, other.spec.generated_ids) == ("12", (68,))


def test_a_cut_inside_a_character_keeps_its_bytes_as_added_tokens(runner):
    visitor = Guest(runner, "a月b")
    before = ids(visitor.session.result)
    run = visitor.ask(append=65, after=2)
    assert run.spec.prompt == "a"
    assert ids(run) == [*before[:3], 65]
    other = Guest(runner, "月")
    other.ask(append=65, after=0)
    assert "no text that ends" in other.session.problem


def test_tokens_are_added_and_taken_back(runner):
    visitor = Guest(runner, "back")
    run = visitor.ask(generate=3, temperature=0.7, seed=2)
    assert len(run.spec.generated_ids) == 3
    description = continuation_panel.describe(run)
    assert description["count"] == 3
    assert "same logits up to" in description["text"]
    assert visitor.ask(remove=1).spec.generated_ids == run.spec.generated_ids[:2]
    assert visitor.ask(remove=2).spec.generated_ids == ()
    assert continuation_panel.describe(visitor.session.result) == {"count": 0, "text": ""}


@pytest.mark.parametrize(
    "bad",
    [
        {"generate": 0, "temperature": 1, "seed": 0},
        {"generate": 10**6, "temperature": 1, "seed": 0},
        {"generate": 1, "temperature": -1, "seed": 0},
        {"generate": 1, "temperature": 1, "seed": -1},
    ],
)
def test_what_cannot_be_added_is_said(runner, bad):
    visitor = Guest(runner, "bad")
    before = visitor.session.result
    assert visitor.ask(**bad) is before
    assert visitor.session.problem


def test_other_messages_are_left_to_others(runner):
    visitor = Guest(runner, "else")
    assert not continuation_panel.on_message(visitor.session, {"token": 1})
    assert not continuation_panel.on_message(visitor.session, {"append": 1, "after": 99})
    assert not continuation_panel.on_message(visitor.session, {"remove": 1})

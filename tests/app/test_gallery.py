"""The prompts that the page offers: each is a link, runs, and has the view that it names."""

import numpy as np
import pytest

from app import link
from app.gallery import MODEL, Example, example_of, examples
from app.lab_views import VIEWS, At, chosen_layer, draw
from app.page import known
from app.runner import LIMIT
from model.intervene import loads
from model.lab import lab
from model.presets import K3_TINY
from model.tokenizers import tokenizer_of

NAMES = [example.name for example in examples()]


def test_there_are_a_dozen_and_they_show_every_view_of_the_lab():
    assert len(examples()) >= 12
    assert len(set(NAMES)) == len(NAMES)
    assert all(example_of(e.model, e.prompt, e.values["changes"]) is e for e in examples())
    assert {example.values["lab"].partition(":")[0] for example in examples()} == set(VIEWS)


@pytest.mark.parametrize("example", examples(), ids=NAMES)
def test_its_link_says_the_same_as_one_click(example):
    found = link.parse(example.link, known())
    assert not found.problems
    assert {name: found.values[name] for name in example.values} == example.values
    assert found.values["prompt"] == example.prompt


@pytest.mark.parametrize("example", examples(), ids=NAMES)
def test_it_runs_and_what_it_names_can_be_drawn(example):
    values = example.values
    run = lab(example.prompt, example.model, loads(values["changes"]))
    name, _, layer = values["lab"].partition(":")
    view = VIEWS[name]
    assert 2 <= run.length <= LIMIT
    if layer:  # it is one that the view has
        assert chosen_layer(view, run.config, int(layer)) == int(layer)
    token = run.length - 1 if values["token"] is None else values["token"]
    head = (values["head"] or 0) if view.heads(run.config) else None
    at = At(chosen_layer(view, run.config, int(layer or -1)), head, token)
    for slot in view.slots:
        wanted = [c for c in slot.choices if c.key in values["plots"]] or slot.choices[:1]
        assert draw(run, slot, wanted[0], at).image.size
    chosen = {c.key for slot in view.slots for c in slot.choices}
    assert set(values["plots"]) <= chosen


def told(name: str):
    """The example of that name, and its pass."""
    example = next(e for e in examples() if e.name == name)
    return example, lab(example.prompt, example.model, loads(example.values["changes"]))


def test_brackets_go_to_the_same_experts():
    example, run = told("Brackets")
    load = run.routing.load(4)
    assert "layer 4" in example.look
    assert (np.sort(load)[-3:] > 3 * load.mean()).all()


def test_characters_never_read_are_not_expected():
    _, run = told("Characters it never read")
    assert (run.lens.tokens.prob[1:] < 0.05).mean() > 0.9


def test_after_two_numbers_only_a_new_ten_surprises():
    _, run = told("Counting")
    likely = run.lens.tokens.prob > 0.5
    third = 7  # tokens of " 40 42 ": a space and every digit are one each
    assert "".join(run.pieces[:third]) == " 40 42 "
    unlikely = [i for i in range(third, run.length) if not likely[i]]
    assert ["".join(run.pieces[i : i + 2]) for i in unlikely] == ["50"]
    assert not likely[[1, 2, 5]].any()


def test_a_run_knows_whether_it_is_an_example():
    first = examples()[0]
    assert example_of(first.model, first.prompt, first.values["changes"]) is first
    assert example_of(first.model, first.prompt + "!", "") is None


def test_a_place_that_cannot_be_read_is_said():
    with pytest.raises(ValueError, match=r"Wrong: .*view of the Lab"):
        _ = Example("Wrong", "a", "lab=nowhere", "nothing").values


def probabilities(name):
    """Of each token of an example but the first, and the likeliest next token."""
    example = next(e for e in examples() if e.name == name)
    run = lab(example.prompt, example.model, loads(example.values["changes"]))
    after = run.logits[0].softmax(-1)
    given = after[:-1].gather(-1, run.ids[0, 1:, None])[:, 0]
    return given, run, after[-1]


def test_what_is_said_of_copies_holds():
    plain, run, _ = probabilities("Nonsense, repeated")
    fading, _, _ = probabilities("The copy, with a memory that fades")
    period = run.pieces.index(" li", 1)
    assert plain[: period - 1].mean() < 0.25
    assert plain[period:].median() > 0.9
    assert fading[period:].mean() < 0.25


def test_what_is_said_of_languages_holds():
    def share(name, layer, expert):
        _, run, _ = probabilities(name)
        chosen = run.values[f"language_model.model.layers.{layer}.block_sparse_moe.gate.topk_idx"][0]
        return (chosen == expert).any(-1).float().mean()

    story = "A story that keeps its names"
    assert share("German", 2, 16) > 0.8 > 0.5 > share(story, 2, 16)
    assert share("Spanish", 5, 12) > 0.8 > 0.5 > share(story, 5, 12)


@pytest.mark.parametrize(("name", "next_piece"), [("Keys and values", "7"), ("Copying a list", " cat")])
def test_the_answer_is_the_likeliest_next_token(name, next_piece):
    _, _, after = probabilities(name)
    assert tokenizer_of(MODEL, K3_TINY.vocab).piece(int(after.argmax())).text == next_piece


def test_what_is_said_of_memory_and_of_the_untrained_model_holds():
    _, run, _ = probabilities("What wipes the memory")
    kept = run.values["language_model.model.layers.6.self_attn.decay"][0].exp().mean((-1, -2))
    ends = [i for i, piece in enumerate(run.pieces) if "\\n" in piece]  # shown by its sign
    assert sorted(kept.argsort()[: len(ends)].tolist()) == ends
    given, _, _ = probabilities("The same story with random weights")
    assert given.max() < 0.02

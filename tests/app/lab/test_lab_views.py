"""The pictures of the Lab: every one can be drawn, is small, and has its difference."""

import numpy as np
import pytest

from k3scope.app.lab.lab_views import VIEWS, Selection, chosen_layer, draw, draw_difference, picture
from k3scope.app.lab.picture_difference import Pairs, minus
from k3scope.app.lab.pooling import fit
from k3scope.model.interventions.intervention import Intervention
from k3scope.model.measure.picture import Picture
from k3scope.model.runs.lab import lab

TEXT = "the quick brown fox"
ALL = [
    (name, slot, choice)
    for name, view in VIEWS.items()
    for slot in view.slots
    for choice in slot.choices
    if choice.draw_pair is None
]
NAMES = [f"{name} {choice.label}" for name, _, choice in ALL]


@pytest.fixture(scope="module")
def run():
    return lab(TEXT)


@pytest.fixture(scope="module")
def changed():
    return lab(TEXT, interventions=[Intervention("sublayer", "zero", layer=0, place="FFN")])


@pytest.fixture(scope="module")
def long():
    return lab("1234567 " * 64)  # 512 tokens


def at(run, name, token=3):
    view = VIEWS[name]
    return Selection(chosen_layer(view, run.config), 1 if view.heads(run.config) else None, token)


@pytest.mark.parametrize(("name", "slot", "choice"), ALL, ids=NAMES)
def test_every_picture_can_be_drawn_as_it_is_and_as_a_difference(run, changed, name, slot, choice):
    shown = draw(run, slot, choice, at(run, name))
    np.testing.assert_allclose(shown.image, picture(run, choice, at(run, name)).image, rtol=1e-6)
    change = draw_difference(changed, run, slot, choice, at(run, name))
    assert change.meaning == "signed"
    assert change.range[0] == -change.range[1]
    here, there = (picture(r, choice, at(run, name)).image.astype(float) for r in (changed, run))
    np.testing.assert_allclose(change.image, here - there, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_a_long_prompt_sends_less_than_300_kb(long, name):
    sent = 0
    for slot in VIEWS[name].slots:
        sent += max(
            draw(long, slot, c, at(long, name, 200)).image.nbytes for c in slot.choices if c.draw_pair is None
        )
    assert sent < 300_000
    assert sum(slot.cells for slot in VIEWS[name].slots) * 4 <= 300_000


def test_a_part_of_a_long_map_is_exact(long):
    choice = VIEWS["attention"].slots[1].choices[1]
    shown = picture(long, choice, Selection(3, 2, 200))
    assert shown.numbers == (152, 248, 152, 248)
    np.testing.assert_array_equal(shown.image, long.attention.map(3, 2)[152:249, 152:249])


def test_pooling_keeps_the_largest_its_sign_and_nan():
    image = np.zeros((4, 1000))
    image[1, 3], image[2, 501], image[3, 999] = -7, 5, np.nan
    small = fit(Picture("x", image, "head", "token", "value", meaning="signed"), 400)
    assert small.image.shape == (4, 100)
    assert small.image[1, 0] == -7
    assert small.image[2, 50] == 5
    assert np.isnan(small.image[3, 99])
    assert small.numbers == (0, 3, 0, 999)
    assert "largest value" in small.note


def test_counts_stay_whole_numbers_in_two_bytes():
    counts = np.arange(92 * 896).reshape(92, 896) % 60_000
    small = fit(Picture("x", counts, "layer", "expert", "tokens"), 41_216)
    assert small.image.dtype == np.uint16
    np.testing.assert_array_equal(small.image, counts)


def test_runs_of_two_prompts_are_set_against_each_other_where_they_agree(run):
    other = lab("The quick red fox")
    pairs = Pairs.of(run, other)
    assert not pairs.same
    choice = VIEWS["tokens"].slots[0].choices[0]
    change = minus(picture(run, choice, at(run, "tokens")), picture(other, choice, at(run, "tokens")), pairs)
    assert list(change.columns) == [run.token_texts[i] for i in pairs.positions[:, 0]]
    with pytest.raises(ValueError, match="no counterpart"):
        pairs.partner(0)
    with pytest.raises(ValueError, match="no token in common"):
        Pairs.of(run, lab("ZZZ"))


def test_a_square_map_of_two_prompts_keeps_the_tokens_both_have(run):
    other, choice = lab("the quick fox"), VIEWS["memory"].slots[3].choices[0]
    change = draw_difference(run, other, VIEWS["memory"].slots[3], choice, at(run, "memory"))
    count = len(Pairs.of(run, other).positions)
    assert change.image.shape == (count, count)
    assert len(change.rows) == len(change.columns) == count


def test_the_layer_of_a_view_is_one_it_has(run):
    assert chosen_layer(VIEWS["attention"], run.config, 4, None, 7) == 7
    assert chosen_layer(VIEWS["attention"], run.config, 4) == 3
    assert chosen_layer(VIEWS["tokens"], run.config, 4) is None


def test_one_token_has_pictures_too():
    one = lab("x")
    for name, slot, choice in ALL:
        assert draw(one, slot, choice, at(one, name, 0)).image.size > 0


def test_experts_in_common_need_two_runs(run, changed):
    slot = VIEWS["routing"].slots[2]
    choice = next(c for c in slot.choices if c.draw_pair)
    with pytest.raises(ValueError, match="a run to compare with"):
        draw(run, slot, choice, at(run, "routing"))
    shown = draw_difference(changed, run, slot, choice, at(run, "routing"))
    assert shown.range[0] == 0
    np.testing.assert_allclose(shown.image, changed.difference_from(run).routes, rtol=1e-6)
    itself = draw_difference(run, run, slot, choice, at(run, "routing"))
    assert (itself.image == 1).all()


def test_the_names_of_pictures_in_a_link_stay_as_they_are():
    keys = [[choice.key for slot in view.slots for choice in slot.choices] for view in VIEWS.values()]
    tokens, routing, memory, attention, depth = keys
    assert tokens == ["lens-probability", "lens-rank"]
    assert routing == [
        "routing-tokens-per-expert", "routing-load", "routing-lanes", "routing-margin-of-the-cut",
        "routing-entropy-of-the-router", "routing-routed-share", "routing-effect-of-the-bias",
        "routing-overlap-of-layers", "routing-experts-in-common-with-the-other-run",
    ]  # fmt: skip
    assert memory == [
        "kda-half-life-by-head", "kda-by-channel", "kda-state-matrix", "kda-one-write",
        "kda-size-of-the-memory", "kda-write-strength", "kda-kept", "kda-written", "kda-erased", "kda-change",
        "kda-output-gate", "kda-old-prediction-against-new-value", "kda-read-out-by-source",
        "kda-around-the-token",
    ]  # fmt: skip
    assert attention == [
        "attention-every-head", "attention-one-head", "attention-around-the-token", "attention-score-own-key",
        "attention-score-shared-key", "attention-entropy", "attention-first-token", "attention-itself",
        "attention-output-gate",
    ]  # fmt: skip
    assert depth == [
        "depth-mean-over-the-tokens", "depth-at-the-token", "depth-who-made-the-logit",
        "depth-size-of-the-running-sum", "depth-largest-value-of-the-running-sum",
        "depth-what-the-layer-reads",
    ]  # fmt: skip

"""Wherever NaN or infinity comes from, no view of a run shows it as a number, a bar or a count."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
from bad_models import PLACES, PROMPT, bad_run, not_numbers

from k3scope.app.lab.lab_views import VIEWS, Selection, draw, draw_difference
from k3scope.app.page.architecture.layer_strip import MeasuredLayers
from k3scope.app.page.architecture.stage import layer_cells
from k3scope.app.page.dock.result_message import result_message
from k3scope.app.page.inspector import live_charts
from k3scope.app.page.lab import lab_text
from k3scope.app.runs.run_link import problem_of
from k3scope.diagrams.drawing.heatmap_svg import plot_svg
from k3scope.diagrams.spec import block_spec
from k3scope.model import load
from k3scope.model.measure.layer_rows import rows
from k3scope.model.measure.logit_lens import candidates
from k3scope.model.runs.lab import lab

FIRST = {
    "KDA query": "layers.2.self_attn.q_proj",
    "KDA from one token on": "embed_tokens",
    "infinite embedding": "embed_tokens",
    "minus infinite embedding": "embed_tokens",
    "KDA decay": "layers.1.self_attn.decay",
    "MLA key": "layers.3.self_attn.kv_b_proj",
    "dense FFN": "layers.0.mlp",
    "one expert": "layers.4.block_sparse_moe",
    "router": "layers.4.block_sparse_moe.gate.scores",
    "router bias": "layers.4.block_sparse_moe.gate.margin",
    "LM head": "lm_head",
    "infinite LM head": "lm_head",
    "everything": "embed_tokens",
}
# of which the quick loop tries some
QUICK = {
    "KDA query",
    "minus infinite embedding",
    "one expert",
    "router bias",
    "infinite LM head",
    "everything",
}
at_every_place = pytest.mark.parametrize(
    "place", [pytest.param(p, marks=() if p in QUICK else pytest.mark.sweep) for p in PLACES]
)


def selections(view, config, token=7):
    layers, head = view.layers(config), 0 if view.heads(config) else None
    return [Selection(layer, head, token) for layer in layers[:1] + layers[-1:] or [None]]


def pictures(run, other=None, token=7):
    for view in VIEWS.values():
        for slot in view.slots:
            for choice in slot.choices:
                for selection in selections(view, run.config, token):
                    if other is not None:
                        yield draw_difference(run, other, slot, choice, selection)
                    elif choice.draw_pair is None:
                        yield draw(run, slot, choice, selection)


@at_every_place
def test_the_first_bad_block_is_named(place):
    result, run = bad_run(place)
    assert FIRST[place] in result.readings.first_bad == run.first_bad
    assert FIRST[place] in problem_of(result, state=None, stored=None, linked=False)
    assert FIRST[place] in repr(run)


@at_every_place
def test_every_picture_says_how_much_of_it_is_not_finite_and_why(place):
    result, run = bad_run(place)
    shown = list(pictures(run))
    assert any(picture.bad_count for picture in shown)
    for picture in shown:
        assert ("not finite" in picture.caption) == bool(picture.bad_count)
        if picture.bad_count:
            assert result.readings.first_bad in picture.caption, picture.title
        assert not not_numbers([picture.caption, repr(picture), plot_svg(picture), *picture.range])


@pytest.mark.parametrize("place", ["KDA query", "one expert", "router bias", "infinite LM head"])
def test_a_difference_is_not_finite_where_one_run_is(place):
    for ours, theirs in (("", place), (place, "")):
        (_, run), (result, other) = bad_run(ours), bad_run(theirs)
        shown = list(pictures(run, other))
        assert any(picture.bad_count for picture in shown)
        for picture in shown:
            assert not picture.bad_count or "first appeared in" in picture.caption
            assert not not_numbers([picture.caption, repr(picture)])
        report = dict(lab_text.report(run, other, result.tokens))
        assert not not_numbers(report)
        assert report["first layer that differs"] != "none" or "LM head" in place


@at_every_place
def test_no_text_and_no_bar_of_the_page_has_what_is_not_finite(place):
    result, run = bad_run(place)
    assert not not_numbers([result_message(result), lab_text.tokens(result)])
    token_of = lambda i: result.tokens[0]  # noqa: E731
    for token in range(run.length):
        assert not not_numbers(lab_text.expected(run, token, token_of))
    for name, view in VIEWS.items():
        for selection in selections(view, run.config):
            assert not not_numbers([list(map(list, lab_text.facts(run, name, selection)))])
    strip = layer_cells("k3-random", MeasuredLayers("k3-random", rows(result.readings)))
    assert not not_numbers(strip)
    assert "not a number" in strip or "infinite" in strip or result.readings.first_bad.endswith("lm_head")


@at_every_place
def test_no_block_of_the_live_tab_has_a_bar_of_what_is_not_finite(place):
    result, _ = bad_run(place)
    for block in block_spec.blocks():
        try:
            reading = live_charts.locate(result, block, None, None)
        except ValueError:  # the model has no such block
            continue
        for token in (None, 0, 7):
            charts = live_charts.charts(result, reading, token) if reading.points else []
            assert not not_numbers([asdict(chart) for chart in charts])
        assert not not_numbers([table["cells"] for table in live_charts.statistics(result, reading)])


@at_every_place
def test_what_is_not_finite_chooses_no_expert_and_no_token(place):
    result, run = bad_run(place)
    c = run.config
    for layer, routing in result.readings.routing.items():
        good = ~routing.bad
        assert routing.counts(c.experts).sum() == good.sum() * c.top_k
        assert ((routing.index >= 0) == good[:, None]).all()
        assert (np.isfinite(routing.weight) == good[:, None]).all()
        assert (np.isfinite(routing.lanes(c.experts)) == good[:, None]).all()
        assert (np.isfinite(routing.load(c.experts)) == good.any()).all(), layer
    lens, (ids, probs) = run.logit_lens.of(), candidates(run.logits, 4)
    for known, numbers in ((lens.rank, lens.prob), (lens.top_ids, lens.top_prob), (ids, probs)):
        assert ((known >= 0) == np.isfinite(numbers)).all()
    assert len(result.next) in (0, 8)
    assert bool(result.next) == bool(run.logits[0, -1].isfinite().all())
    assert not any(np.isinf(lives).any() for lives in result.readings.half_lives.values())


@at_every_place
def test_a_view_in_a_notebook_names_the_first_bad_block(place):
    _, run = bad_run(place)
    views = [run.view(name) for name in ("routing", "kda", "attention", "depth", "lens")]
    shown = [view.picture() for view in views] + [run.routing.picture(8), run.attention.picture(7, 0)]
    assert any(picture.bad_count for picture in shown)
    for picture in shown:
        assert picture.note.count(run.first_bad) == bool(picture.bad_count)
        assert (run.first_bad in picture._repr_html_()) == bool(picture.bad_count)


@pytest.mark.parametrize("prompt", ["1", PROMPT])
def test_a_healthy_run_has_nothing_that_is_not_finite(prompt):
    run = lab(prompt, "k3-random")
    assert not [picture.caption for picture in pictures(run, token=0) if picture.bad_count]
    for name, view in VIEWS.items():
        for selection in selections(view, run.config, 0):
            texts = [text for _, text in lab_text.facts(run, name, selection)]
            assert not not_numbers(texts)
            assert not [text for text in texts if "not a number" in text or "infinite" in text]
    assert "first appeared" not in repr(run)
    assert not not_numbers(repr(run))


@pytest.mark.parametrize(("bias", "bad"), [(float("inf"), True), (float("-inf"), False)])
def test_an_infinite_bias_chooses_nothing_and_minus_infinity_switches_an_expert_off(bias, bad):
    model = load("k3-random", torch.float32)
    gate = model.get_submodule("language_model.model.layers.4.block_sparse_moe.gate")
    gate.e_score_correction_bias.data[3] = bias
    run = lab(torch.arange(12), model)
    assert run.logits.isfinite().all()
    assert bool(run.readings.first_bad) is bad
    assert (run.routing.of(4).index[:, 0] < 0).all() == bad

"""The Python API and its pictures: the same reducers, named, shown and written."""

import base64
import csv
import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from k3scope.diagrams.drawing.heatmap_svg import plot_svg
from k3scope.diagrams.drawing.png import to_png
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.hooks import watch
from k3scope.model.init import random_model
from k3scope.model.interventions.intervention import Intervention
from k3scope.model.measure import attention, colours, half_life, logit_lens, routing
from k3scope.model.measure.observe import VIEWS, observe
from k3scope.model.measure.picture import SAME, Picture
from k3scope.model.measure.run_difference import aligned
from k3scope.model.measure.run_plots import PLOTS
from k3scope.model.presets import KIMI_LINEAR
from k3scope.model.runs.lab import lab
from k3scope.model.runs.run import trace
from k3scope.model.vision.preprocess import prepare

PROMPT = "Hi <b>&\n你👩‍👩‍👧"
PICTURES = [
    ("routing", None, None),
    ("routing", 3, None),
    ("kda", None, None),
    ("kda", 2, None),
    ("kda", 2, 4),
    ("attention", None, None),
    ("attention", 7, None),
    ("attention", 7, 5),
    ("depth", None, None),
    ("depth", 0, None),
    ("depth", 6, None),
    ("lens", None, None),
]


@pytest.fixture(scope="module")
def run():
    return lab(PROMPT, "k3-random")


@pytest.fixture(scope="module")
def one():
    return lab("", "k3-random")


def test_accessors_are_the_reducers(run, tiny):
    full = trace(tiny, run.ids)
    assert full.source == "model"
    assert run.source == "k3-random, random weights"
    np.testing.assert_array_equal(run.routing.load(3), routing.routing_of(full, 3).load(18))
    np.testing.assert_array_equal(run.kda.half_life(4), half_life.half_life(full, 4))
    np.testing.assert_array_equal(full.attention.map(8, 1), attention.attention_map(run, 8, 1))
    np.testing.assert_allclose(run.logit_lens.of().prob, full.logit_lens.of().prob)
    assert run.readings.points == full.readings.points
    assert run.depth.attribution().names[:2] == ("embedding", "attention 0")


def test_what_is_printed_is_a_sentence(run):
    tokens = len(tokenizer_of("k3-random", run.config.vocab).encode(PROMPT))
    assert repr(run).startswith(f"k3-random, random weights: {tokens} tokens, 'Hi <b>&")
    assert repr(run.routing) == repr(run.routing.picture())
    assert "layer × expert, 8 × 18" in repr(run.routing)
    assert "<img" in run.kda._repr_html_()


@pytest.mark.parametrize(("view", "layer", "head"), PICTURES)
def test_every_picture_can_be_written(run, one, view, layer, head):
    for which, dark in ((run, False), (one, True)):  # one: the begin-of-text token alone
        picture = which.picture(view, layer, head)
        svg = plot_svg(picture, dark)
        root = ET.fromstring(svg)
        words = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {picture.title, "k3-random, random weights", picture.across} <= set(words)
        image = Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", svg)[1])))
        assert image.size == picture.image.shape[::-1]
        rows = list(csv.reader(io.StringIO(picture.csv())))
        assert len(rows) == picture.image.shape[0] + 1
        assert {len(row) for row in rows} == {picture.image.shape[1] + 1}
        assert picture._repr_html_().count("<img") == 1
        arrays = which.view(view).arrays(layer, head)
        assert arrays["tokens"] == which.length


@pytest.mark.parametrize(("view", "name"), [(view, name) for view in PLOTS for name in PLOTS[view]])
def test_every_further_plot_can_be_written(run, one, view, name):
    needs, _ = PLOTS[view][name]
    at = {"layer": {"kda": 5, "attention": 8}.get(view), "head": 1, "token": 0}
    at = {part: at[part] for part in needs}
    for which in (run, one):
        picture = which.picture(view, plot=name, **at)
        assert np.isfinite(picture.measured).any() or which is one
        ET.fromstring(plot_svg(picture))
    with pytest.raises(ValueError, match=f"the plot {name} of {view}"):
        run.picture(view, plot=name, **({} if needs else {"head": 0}))


def test_further_plots_hold_the_numbers_of_the_reducers(run):
    np.testing.assert_array_equal(run.picture("kda", 5, plot="state").image, run.kda.steps(5).state.T)
    np.testing.assert_array_equal(run.picture("routing", plot="margin").image[2], run.routing.of(3).margin)
    np.testing.assert_array_equal(
        run.picture("attention", 8, plot="sink").image, run.attention.heads(8).sink.T
    )
    np.testing.assert_array_equal(run.picture("depth", plot="rms").image, run.depth.residual.rms)
    np.testing.assert_array_equal(run.picture("lens", plot="rank").image, run.logit_lens.of().rank + 1)
    parts = [run.picture("attention", 8, 2, plot=name).image for name in ("own", "shared")]
    softmax = torch.tensor(sum(parts)).nan_to_num(-torch.inf).softmax(-1)
    np.testing.assert_allclose(softmax, run.attention.map(8, 2), atol=1e-6)


def test_columns_of_common_tokens_are_compared(run):
    other = lab("Ho <b>&", "k3-random")
    pairs = aligned(run.ids[0].tolist(), other.ids[0].tolist())
    a, b = run.picture("lens"), other.picture("lens")
    result = a.select(pairs[:, 0]).minus(b.select(pairs[:, 1]))
    assert list(result.columns) == ["H", " ", "<", "b", ">", "&"]
    np.testing.assert_allclose(result.image[:, 0], a.image[:, 0] - b.image[:, 0], atol=1e-7)
    assert not np.isnan(result.image).any()


def test_a_prompt_is_text_everywhere(run):
    assert "<b>" not in run.logit_lens._repr_html_().replace("<b>Probability", "")
    assert "<b>" not in plot_svg(run.picture("lens"))
    ugly = Picture("a\x00<\ud800", np.ones((1, 1)), "<", "&", '"', rows=["<x>"])
    ET.fromstring(plot_svg(ugly))


def test_the_png_has_the_colours_of_the_values():
    values = np.array([[0.0, 1.0], [2.0, np.nan]])
    picture = Picture("t", values, "a", "b", "v", absent=np.array([[False, True], [False, False]]))
    cells = np.asarray(Image.open(io.BytesIO(picture.png())))
    ramp = [tuple(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in colours.ramp("amount")]
    assert tuple(cells[0, 0]) == (*ramp[0], 255)
    assert tuple(cells[1, 0]) == (*ramp[-1], 255)
    assert cells[0, 1, 3] == 0
    assert "#%02x%02x%02x" % tuple(cells[1, 1, :3]) == colours.NAN[False]  # noqa: UP031
    svg = plot_svg(picture)
    assert ">not a number<" in svg
    drawn = Image.open(io.BytesIO(to_png(svg, 1.0))).convert("RGB")
    assert {ramp[0], ramp[-1]} <= {colour for _, colour in drawn.getcolors(1 << 20)}
    assert picture.csv().splitlines() == ["a / b,0,1", "0,0,", "1,2,nan"]


def test_a_difference_of_nothing_is_reported():
    one = Picture("t", np.array([[1.0, np.nan], [2.0, 3.0]]), "a", "b", "v", note="Read so.")
    there = np.array([[False, False], [False, True]])
    assert one.minus(one).note == "Read so."  # what is no number differs from nothing by nothing known
    assert one.minus(one).caption == "Read so. 1 of 4 values is not finite."
    whole = replace(one, image=np.array([[1.0, 5.0], [2.0, 3.0]]))
    assert whole.minus(whole).note == f"Read so. {SAME}"
    other = replace(whole, image=np.array([[1.0, 5.0], [2.0, 4.0]]), absent=there, note="")
    assert other.minus(whole).note == SAME
    assert whole.minus(other).note == "Read so."


def test_ranges():
    made = lambda values, **more: Picture("t", np.array([values]), "a", "b", "v", **more)  # noqa: E731
    assert made([1.0, 3.0]).range == (0, 3)
    assert made([-1.0, 3.0], meaning="signed").range == (-3, 3)
    assert made([1e-9, 2.0], log=True).range == (2e-4, 2)
    assert made([0.5, 2.0], log=True).range == (0.5, 2)
    for empty in ([np.nan], [0.0]):
        assert made(empty).range == (0, 1)


def test_a_difference_is_signed_and_of_one_size(run):
    changed = lab(PROMPT, "k3-random", interventions=[Intervention("sublayer", "zero", 2, place="attention")])
    result = changed.picture("lens").minus(run.picture("lens"))
    assert result.meaning == "signed"
    assert np.abs(result.image).max() > 0
    assert SAME not in result.note
    assert result.source == "k3-random, changed, random weights minus k3-random, random weights"
    assert run.difference_from(changed).kl.max() > 0
    with pytest.raises(ValueError, match="have no difference"):
        lab("x", "k3-random").picture("lens").minus(run.picture("lens"))


def test_nan_is_shown_and_named():
    broken = lab(
        PROMPT, "k3-random", interventions=[Intervention("token", "noise", 8, tokens=(3,), amount=1e40)]
    )
    assert broken.readings.first_bad == "language_model.model.layers.8.prefix_sum"
    assert ">not a number<" in plot_svg(broken.picture("lens"))
    assert "first appeared in language_model.model.layers.8.prefix_sum" in broken.picture("lens").note
    assert "first appeared in language_model.model.layers.8.prefix_sum" in repr(broken)
    assert np.isfinite(broken.logit_lens.tokens.loss[1:4]).all()
    assert np.isnan(broken.logit_lens.tokens.loss[4])


def test_a_long_prompt_is_binned_in_pictures():
    long = lab(torch.arange(700) % 256, "k3-random", views=["attention", "kda"])
    for view, layer in (("attention", 3), ("kda", 5)):
        picture = long.picture(view, layer, 2)
        assert picture.image.shape == (512, 512)
        assert picture.numbers == (0, 699, 0, 699)
        assert "512 bins" in picture.note
        words = [t.text for t in ET.fromstring(plot_svg(picture)).iter("{http://www.w3.org/2000/svg}text")]
        assert {"0", "100", "600"} <= set(words)  # with gaps between them tokens have numbers
    mosaic = long.picture("attention", 3)
    assert mosaic.image.size < 300_000
    assert long.picture("kda", 5, 2).csv().splitlines()[3].startswith("2-3,")
    crop = long.attention.map(3, 2, slice(690, 700), slice(0, 700))
    np.testing.assert_allclose(crop.sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("view", "layer", "head", "sentence"),
    [
        ("routes", None, None, "expected routing, kda"),
        ("routing", 0, None, "layer 0 has no experts"),
        ("routing", 1, 2, "no heads"),
        ("kda", 3, None, "no linear attention"),
        ("kda", None, 1, "say which layer"),
        ("attention", 0, 1, "no attention map"),
        ("attention", 3, 9, "heads 0 to 5"),
        ("depth", 11, None, "no mix"),
        ("lens", 2, None, "every layer at once"),
    ],
)
def test_what_a_view_does_not_have_is_reported(run, view, layer, head, sentence):
    with pytest.raises(ValueError, match=sentence):
        run.picture(view, layer, head)


def test_runs_leave_hooks_and_each_other_alone(tiny):
    hooks = lambda: sum(len(m._forward_hooks) for m in watch(tiny).modules())  # noqa: E731
    ids = torch.tensor(list(b"abc"))
    before, first = hooks(), lab(ids, tiny)
    with pytest.raises(ValueError, match="tokens 0 to 2"):
        lab(ids, tiny, [Intervention("token", "zero", 1, tokens=(7,))])
    assert hooks() == before
    assert torch.equal(lab(ids, tiny).logits, first.logits)


def test_ids_are_as_good_as_text(tiny):
    with pytest.raises(ValueError, match="ids have"):
        lab(torch.tensor([]), tiny)
    assert lab(torch.tensor([1, 2]), "k3-random").token_texts == ["\\x01", "\\x02"]
    assert torch.equal(lab(torch.tensor([49, 50]), tiny).logits, lab("12", "k3-random").logits)


def test_a_loaded_model_takes_ids_and_shows_them(tiny):
    assert lab(torch.tensor([1, 2]), tiny).token_texts == ["1", "2"]
    with pytest.raises(ValueError, match="no tokenizer is known for this model; give ids"):
        lab("text", tiny)


def test_the_views_are_those_of_the_command_line(run):
    for view in VIEWS:
        assert run.view(view) is getattr(run, view)


def test_the_older_family_shows_itself_too():
    config = replace(
        KIMI_LINEAR, vocab=50, d=24, kinds=("kda", "mla"), dense=40, kda_heads=2, kda_head_dim=8, heads=3,
        kv_rank=12, nope_dim=6, shared_key_dim=4, v_dim=5, experts=5, top_k=2, expert_dim=7, a_log_stored=2,
        gate_rank=4,
    )  # fmt: skip
    run = lab(torch.arange(6), random_model(config))
    for view, layer in (("routing", 1), ("kda", 0), ("attention", 1), ("depth", None), ("lens", None)):
        assert np.isfinite(run.picture(view, layer).measured).all()
        run.view(view).arrays(layer)
    np.testing.assert_allclose(run.depth.attribution().rest, 0, atol=1e-6)
    assert (run.logit_lens.of().top_ids[-1] == run.logits[0].argmax(-1).numpy()).all()
    changes = [Intervention("head", "zero", 1, 2), Intervention("token", "mean", tokens=(1,))]
    assert not torch.equal(lab(torch.arange(6), run.model, changes).logits, run.logits)


def test_a_run_that_kept_nothing_of_a_view_is_reported():
    few = lab("abc", "k3-random", views=["lens"])
    for view in ("routing", "kda", "attention"):
        with pytest.raises(ValueError, match="no layer of this run has that"):
            few.picture(view)


def test_images_are_part_of_a_run(tiny):
    images = prepare([np.zeros((28, 56, 3), np.uint8)], tiny.config.vision)
    recorded = observe(tiny, torch.tensor([1, tiny.config.media_pad, 2]), images=images)
    full = trace(tiny, torch.tensor([1, tiny.config.media_pad, 2]), images=images)
    assert recorded.trace.ids.tolist() == [[1, 2043, 2043, 2]]
    assert torch.equal(logit_lens.embedding(recorded.trace), full.values["language_model.model.splice"])
    assert torch.equal(recorded.trace.logits, full.logits)
    assert recorded.points.keys() == full.readings.points.keys()

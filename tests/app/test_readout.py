"""What the Live tab and the Lab show is what was measured."""

import numpy as np
import pytest
import torch

from app import readout
from app.parts.lab import Pictures
from app.parts.plots import heat, layer_labels, ramp
from app.runner import Runner
from app.runs import Runs
from app.state import State
from diagrams import spec
from model import load, trace
from model.presets import preset

PROMPT = "the same, the same"


@pytest.fixture(scope="module")
def run():
    return Runner().submit("k3-random", PROMPT).future.result(timeout=60)


@pytest.fixture(scope="module")
def passed():
    return trace(load("k3-random"), torch.tensor(list(PROMPT.encode())))


TEXT = [b.id for b in spec.blocks().values() if all(at.startswith("language_model") for at in b.at if at)]


@pytest.mark.parametrize("block", TEXT)
def test_every_block_of_the_text_model_has_something_to_show(run, block):
    at = readout.place(run, block, None, None)
    assert at.points, block
    assert readout.statistics(run, at)
    for chart in readout.charts(run, at, 2):
        assert len(chart.labels) == len(chart.values) == len(chart.tips) > 0


def test_the_layer_is_of_the_same_kind_as_the_drawn_one(run):
    k3 = preset("kimi-k3")
    for drawn in (0, 5, 42, 43, 92):
        at = readout.place(run, "attn_norm", None, (k3, drawn))
        assert readout.kind_of(run.config, at.layer) == readout.kind_of(k3, drawn)
    assert readout.place(run, "attn_norm", None, (k3, 5)).layer == 5  # the same number where it fits


def test_a_chosen_layer_wins_and_a_layer_without_the_block_does_not(run):
    assert readout.place(run, "kda_decay", 6, None).layer == 6
    assert readout.place(run, "kda_decay", 3, None).layer == 0
    assert 3 not in readout.place(run, "kda_decay", None, None).layers


def test_statistics_are_those_of_the_shown_layer(run, passed):
    at = readout.place(run, "kda_decay", 5, None)
    table = readout.statistics(run, at)[0]
    decay = passed.layer(5, "self_attn.decay")
    assert table["name"] == "decay"
    assert table["shape"] == f"[1, {len(PROMPT)}, 5, 32]"
    assert dict(table["cells"])["mean"] == f"{decay.double().mean().item():.4g}"


def test_the_three_convolutions_of_a_layer_are_told_apart(run):
    names = [t["name"] for t in readout.statistics(run, readout.place(run, "kda_short_conv", 1, None))]
    assert names == ["q_conv1d", "k_conv1d", "v_conv1d"]


def test_expert_counts_and_a_tokens_choice_are_those_of_the_router(run, passed):
    index = passed.layer(4, "block_sparse_moe.gate.topk_idx")[0]
    counts, choice = readout.charts(run, readout.place(run, "moe_router", 4, None), 7)
    assert counts.values == torch.bincount(index.flatten(), minlength=run.config.experts).tolist()
    assert sum(counts.values) == len(PROMPT) * run.config.top_k
    assert choice.labels == [f"expert {i}" for i in index[7].tolist()]


def test_a_token_of_an_earlier_longer_prompt_is_ignored(run):
    charts = readout.charts(run, readout.place(run, "moe_router", 4, None), 999)
    assert len(charts) == 1


def test_the_lab_draws_the_measured_arrays(run):
    runs = Runs(State(), Runner(), lambda coroutine: None)
    pictures = Pictures(runs)
    pictures.show(run)
    np.testing.assert_array_equal(pictures._residual.source.data["image"][0], run.readings.residual.rms)
    np.testing.assert_array_equal(pictures._routing.source.data["image"][0], run.readings.counts)
    assert pictures._routing.source.data["y"] == [run.config.dense_layers - 0.5]
    depth = pictures._depth.source.data["image"][0]
    np.testing.assert_allclose(np.nansum(depth, 1), 1, rtol=1e-5)
    assert all("random weights" in words.object for words in pictures._words)
    assert "18 × 3 = 54" in " ".join(pictures._words[1].object.split())


def test_cells_are_centred_on_their_numbers_with_the_first_row_on_top():
    drawn = heat("token", "value", "0")
    drawn.show(np.zeros((3, 4)), ["a", "b", "c"], [], (1, 0))
    assert (drawn.plot.x_range.start, drawn.plot.x_range.end) == (-0.5, 3.5)
    assert (drawn.plot.y_range.start, drawn.plot.y_range.end) == (3.5, 0.5)
    assert drawn.plot.yaxis[0].major_label_overrides == {1: "a", 2: "b", 3: "c"}


def test_labels_of_the_picture_before_are_gone():
    drawn = heat("token", "value", "0")
    drawn.show(np.zeros((1, 2)), ["a"], ["x", "y"])
    drawn.show(np.zeros((1, 50)), ["a"], [])
    assert drawn.plot.xaxis[0].major_label_overrides == {0: "0", 1: "1"}  # BokehJS would keep x and y


@pytest.mark.parametrize("dark", [False, True])
def test_a_ramp_goes_one_way_in_brightness(dark):
    light = [sum(int(c[i : i + 2], 16) for i in (1, 3, 5)) for c in ramp(dark)]
    assert len(light) == 256
    assert light == sorted(light, reverse=not dark)


def test_layers_are_named_by_number_and_kind():
    assert layer_labels(preset("k3-random"), [0, 3]) == ["KDA dense 0", "MLA 3"]

"""What the Live tab and the Lab show is what was measured."""

import pytest
import torch

from k3scope.app.page.inspector import live_charts
from k3scope.app.runs.runner import Runner
from k3scope.diagrams.spec import block_spec
from k3scope.model import load, trace
from k3scope.model.presets import preset

PROMPT = "12345678, 12345678"


@pytest.fixture(scope="module")
def run():
    return Runner().submit("k3-random", PROMPT).future.result(timeout=60)


@pytest.fixture(scope="module")
def passed():
    return trace(load("k3-random"), torch.tensor(list(PROMPT.encode())))


TEXT = [
    b.id for b in block_spec.blocks().values() if all(at.startswith("language_model") for at in b.at if at)
]


@pytest.mark.parametrize("block", TEXT)
def test_every_block_of_the_text_model_has_something_to_show(run, block):
    reading = live_charts.locate(run, block, None, None)
    assert reading.points, block
    assert live_charts.statistics(run, reading)
    for chart in live_charts.charts(run, reading, 2):
        assert len(chart.labels) == len(chart.values) == len(chart.tips) > 0


def test_the_layer_is_of_the_same_kind_as_the_drawn_one(run):
    k3 = preset("kimi-k3")
    for drawn in (0, 5, 42, 43, 92):
        reading = live_charts.locate(run, "attn_norm", None, (k3, drawn))
        assert live_charts.kind_of(run.config, reading.layer) == live_charts.kind_of(k3, drawn)
    assert live_charts.locate(run, "attn_norm", None, (k3, 5)).layer == 5  # the same number where it fits


def test_a_chosen_layer_wins_and_a_layer_without_the_block_does_not(run):
    assert live_charts.locate(run, "kda_decay", 6, None).layer == 6
    assert live_charts.locate(run, "kda_decay", 3, None).layer == 0
    assert 3 not in live_charts.locate(run, "kda_decay", None, None).layers


def test_statistics_are_those_of_the_shown_layer(run, passed):
    reading = live_charts.locate(run, "kda_decay", 5, None)
    table = live_charts.statistics(run, reading)[0]
    decay = passed.layer(5, "self_attn.decay")
    assert table["name"] == "decay"
    assert table["shape"] == f"[1, {len(PROMPT)}, 5, 32]"
    assert dict(table["cells"])["mean"] == f"{decay.double().mean().item():.4g}"


def test_the_three_convolutions_of_a_layer_are_told_apart(run):
    names = [
        t["name"] for t in live_charts.statistics(run, live_charts.locate(run, "kda_short_conv", 1, None))
    ]
    assert names == ["q_conv1d", "k_conv1d", "v_conv1d"]


def test_expert_counts_and_a_tokens_choice_are_those_of_the_router(run, passed):
    index = passed.layer(4, "block_sparse_moe.gate.topk_idx")[0]
    counts, choice = live_charts.charts(run, live_charts.locate(run, "moe_router", 4, None), 7)
    assert counts.values == torch.bincount(index.flatten(), minlength=run.config.experts).tolist()
    assert sum(counts.values) == len(PROMPT) * run.config.top_k
    assert choice.labels == [f"expert {i}" for i in index[7].tolist()]


def test_a_token_of_an_earlier_longer_prompt_is_ignored(run):
    charts = live_charts.charts(run, live_charts.locate(run, "moe_router", 4, None), 999)
    assert len(charts) == 1

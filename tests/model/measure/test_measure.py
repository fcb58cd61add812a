"""Reducers against a direct recomputation from the trace."""

import math

import numpy as np
import pytest
import torch

from k3scope.model import load, trace
from k3scope.model.measure import attention, depth, half_life, logit_lens, readings, routing, statistics
from k3scope.model.measure.observe import observe, points_for

IDS = torch.tensor([84, 104, 101, 32, 102, 111, 120, 256, 10, 104, 101])


@pytest.fixture(scope="module")
def run():
    return trace(load("k3-random"), IDS)


@pytest.fixture(scope="module")
def config():
    return load("k3-random").config


def test_residual_is_the_size_of_the_running_sum_of_each_layer(run, config):
    result = depth.residual(run)
    assert result.rms.shape == result.peak.shape == (config.layers, len(IDS))
    for layer in range(config.layers):
        x = run.layer(layer, "prefix_sum")[0].numpy().astype(np.float64)
        np.testing.assert_allclose(result.rms[layer], np.sqrt((x**2).mean(-1)), rtol=1e-5)
        np.testing.assert_array_equal(result.peak[layer], np.abs(x).max(-1).astype(np.float32))


def test_every_row_of_the_routing_counts_sums_to_tokens_times_top_k(run, config):
    counts = routing.routing_counts(run)
    layers = routing.moe_layers(run)
    assert layers == list(range(config.dense_layers, config.layers))
    assert counts.shape == (len(layers), config.experts)
    assert (counts.sum(-1) == len(IDS) * config.top_k).all()


def test_the_choice_follows_from_the_saved_scores(run, config):
    for layer in routing.moe_layers(run):
        result = routing.routing_of(run, layer)
        scores = run.layer(layer, "block_sparse_moe.gate.scores")[0].numpy()
        order = np.argsort(-scores, axis=-1)  # random weights have no bias
        np.testing.assert_array_equal(result.index, order[:, : config.top_k])
        chosen = np.take_along_axis(scores, order, -1)
        weight = chosen[:, : config.top_k] / chosen[:, : config.top_k].sum(-1, keepdims=True)
        np.testing.assert_allclose(result.weight, weight, rtol=1e-5)
        np.testing.assert_allclose(
            result.margin, chosen[:, config.top_k - 1] - chosen[:, config.top_k], atol=1e-6
        )
        assert result.counts(config.experts).sum() == len(IDS) * config.top_k
        assert result.load(config.experts).sum() == pytest.approx(len(IDS) * config.routed_scale, rel=1e-5)


def test_top_next_are_the_largest_probabilities_of_the_last_position(run):
    ids, probs = logit_lens.top_next(run.logits, 5)
    logits = run.logits[0, -1].double().numpy()
    expected = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_array_equal(ids, np.argsort(-expected)[:5])
    np.testing.assert_allclose(probs, np.sort(expected)[::-1][:5], rtol=1e-6)


def test_mixes_come_in_forward_order_and_their_weights_sum_to_one(run, config):
    result = depth.mixes(run)
    # two per layer, none before the first attention, and one before the head
    assert len(result) == 2 * config.layers - 1 + 1
    assert [m.place for m in result[:3]] == ["FFN", "attention", "FFN"]
    assert result[-1].layer is None
    for mix in result:
        assert mix.mean.sum() == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(mix.mean, run.values[mix.point][0].numpy().mean(0), rtol=1e-5)
        if mix.layer is not None:
            which = "attn" if mix.place == "attention" else "ffn"
            assert len(mix.mean) == config.candidates(mix.layer, which)


def test_half_life_is_the_median_over_tokens_and_channels(run, config):
    result = half_life.half_lives(run)
    assert set(result) == {i for i, kind in enumerate(config.kinds) if kind == "kda"}
    decay = run.layer(0, "self_attn.decay")[0].numpy()  # [T, kda_heads, kda_head_dim]
    for head in range(config.kda_heads):
        tokens = np.sort((math.log(2) / -decay[:, head]).ravel())
        assert result[0][head] == pytest.approx(tokens[(len(tokens) - 1) // 2], rel=1e-5)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 4)])
def test_statistics_equal_numpy(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)).relu()
    result, a = statistics.statistics(x), x.numpy().astype(np.float64)
    assert result.shape == shape
    assert result.finite
    expected = (a.mean(), a.std(), a.min(), a.max(), np.sqrt((a**2).mean()), (a == 0).mean())
    assert (result.mean, result.std, result.min, result.max, result.rms, result.zeros) == pytest.approx(
        expected, rel=1e-5, abs=1e-7
    )


def test_all_statistics_cover_every_tensor_of_numbers_and_equal_single_ones(run):
    result = statistics.all_statistics(run)
    tensors = {p: x for p, x in run.values.items() if isinstance(x, torch.Tensor) and x.is_floating_point()}
    assert list(result) == list(tensors)
    for path in list(tensors)[::40]:
        assert result[path] == statistics.statistics(tensors[path])


def test_the_first_point_with_a_nan_is_named_and_not_a_later_one():
    model = load("k3-random")
    point = "language_model.model.layers.4.self_attn.gate"
    broken = trace(model, IDS, edits={point: lambda x: x.fill_(float("nan"))})
    assert statistics.first_bad(statistics.all_statistics(broken)) == point
    infinite = trace(model, IDS, edits={point: lambda x: x * float("inf")})
    assert statistics.first_bad(statistics.all_statistics(infinite)) == point


def test_a_sound_trace_has_no_bad_point(run):
    assert statistics.first_bad(statistics.all_statistics(run)) is None


def test_readings_are_small(run):
    result = readings.readings(run)
    arrays = [result.residual.rms, result.residual.peak, result.counts]
    arrays += [a for r in result.routing.values() for a in (r.index, r.weight, r.margin)]
    assert sum(a.nbytes for a in arrays) < 1000 * len(IDS) + 10_000


def test_a_pass_that_keeps_little_reads_the_same(run):
    model = load("k3-random")
    few = observe(model, IDS)
    full, result = readings.readings(run), few.readings()
    assert list(few.points) == list(full.points)
    assert result.points == full.points
    assert result.first_bad is None
    np.testing.assert_array_equal(result.residual.rms, full.residual.rms)
    np.testing.assert_array_equal(result.counts, full.counts)
    np.testing.assert_array_equal(result.tokens.loss, full.tokens.loss)
    assert result.half_lives.keys() == full.half_lives.keys()
    for ours, theirs in zip(result.mixes, full.mixes, strict=True):
        np.testing.assert_array_equal(ours.mean, theirs.mean)
    np.testing.assert_array_equal(
        attention.attention_map(few.trace, 8, 1), attention.attention_map(run, 8, 1)
    )


def test_a_long_pass_keeps_a_fraction():
    model = load("k3-random")
    ids = torch.randint(0, 256, (512,), generator=torch.Generator().manual_seed(2))
    held = lambda t: sum(  # noqa: E731
        {x.data_ptr(): x.nbytes for x in t.values.values() if isinstance(x, torch.Tensor)}.values()
    )
    assert held(observe(model, ids).trace) < 0.4 * held(trace(model, ids))
    assert not [p for p in points_for(model.config) if p.endswith("attention.probs")]


def test_interventions_and_progress_reach_a_pass_that_keeps_little():
    model, recorded = load("k3-random"), []
    point = "language_model.model.layers.4.self_attn.gate"
    broken = observe(model, IDS, edits={point: lambda x: x * float("nan")}, on_point=recorded.append)
    assert broken.readings().first_bad == point
    assert point in recorded


def test_one_view_needs_only_its_own_points(run):
    few = observe(load("k3-random"), IDS[:1], ["routing"]).trace
    assert routing.moe_layers(few) == routing.moe_layers(run)
    assert few.logits.shape[1] == 1
    assert half_life.kda_layers(few) == []

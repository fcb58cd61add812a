"""Depth: what the mixes read, where the sum restarts, and which sublayer made a logit."""

import numpy as np
import pytest
import torch

from k3scope.model import load, trace
from k3scope.model.measure import attribution, depth
from k3scope.model.measure.hook_points import layers_with

IDS = torch.tensor([84, 104, 101, 32, 102, 111, 120, 256, 10, 104, 101])


@pytest.fixture(scope="module")
def exact():
    return load("k3-random", torch.float64)


@pytest.fixture(scope="module")
def run(exact):
    return trace(exact, IDS)


def test_contributions_sum_to_the_logit_exactly(exact, run):
    result = attribution.attribution(exact, run)
    logits = run.logits[0].numpy()
    np.testing.assert_array_equal(result.targets, logits.argmax(-1))
    np.testing.assert_allclose(result.logit, logits.max(-1), rtol=1e-12)
    np.testing.assert_allclose(result.parts.sum(0), result.logit, rtol=0, atol=1e-12)
    assert np.abs(result.rest).max() < 1e-12
    assert len(result.names) == 2 * exact.config.layers + 1


def test_a_contribution_is_what_a_logit_loses_without_that_output(exact, run):
    """Recomputed by hand for one sublayer: candidates without its output, weights and RMS as they were."""
    target, layer = 42, 6
    result = attribution.attribution(exact, run, torch.full((len(IDS),), target))
    text = exact.language_model.model
    values = torch.stack([run.layer(0, "block_store"), run.layer(4, "block_store"),
                          run.layer(8, "block_store"), run.layer(8, "prefix_sum")], -2)[0]  # fmt: skip
    probs = run.values[depth.OUTPUT][0]
    mixed = (probs[..., None] * values).sum(-2)
    rms = (mixed.square().mean(-1) + exact.config.eps).sqrt()
    values[:, 2] -= run.layer(layer, "self_attn")[0]  # layers 4 to 7 are what the third candidate sums up
    without = (probs[..., None] * values).sum(-2) / rms[:, None] * text.norm.weight
    expected = run.logits[0, :, target] - without @ exact.language_model.lm_head.weight[target]
    np.testing.assert_allclose(result.parts[result.names.index("attention 6")], expected, atol=1e-12)


def test_the_rest_shows_what_an_edit_of_a_sum_put_in(exact):
    point = "language_model.model.layers.8.prefix_sum"
    result = attribution.attribution(exact, trace(exact, IDS, edits={point: lambda x: x + 1}))
    assert np.abs(result.rest).max() > 1e-3
    np.testing.assert_allclose(result.parts.sum(0) + result.rest, result.logit)


def test_every_mix_at_one_token(run, exact):
    result = depth.weights_of_token(run, 4)
    assert result.shape == (2 * exact.config.layers, 4)
    np.testing.assert_allclose(np.nansum(result, -1), 1, atol=1e-6)
    for mix, row in zip(depth.mixes(run), result, strict=True):
        weights = run.values[mix.point][0, 4].numpy()
        np.testing.assert_allclose(row[: len(weights) - 1], weights[:-1], rtol=1e-6)
        assert row[-1] == pytest.approx(weights[-1])
        np.testing.assert_allclose(depth.mix_weights(run, mix).mean(0), mix.mean, rtol=1e-5)


def test_the_sum_restarts_where_a_block_starts(run, exact):
    result = depth.resets(run)
    assert [r.layer for r in result] == [0, 4, 8]
    sums = depth.residual(run).rms
    np.testing.assert_array_equal(result[1].stored, sums[3])
    rms = run.layer(4, "self_attn")[0].square().mean(-1).sqrt()
    np.testing.assert_allclose(result[1].restarted, rms, rtol=1e-6)


def test_points_are_those_that_the_reducers_read(tiny):
    c = tiny.config
    names = [f"language_model.model.layers.{n}.{p}" for n in range(c.layers) for p in depth.points(c, n)]
    few = trace(tiny, IDS, points=[*names, depth.OUTPUT])
    full = trace(tiny, IDS)
    assert [m.point for m in depth.mixes(few)] == [m.point for m in depth.mixes(full)]
    assert layers_with(few, "attn_sum") == [0, 4, 8]

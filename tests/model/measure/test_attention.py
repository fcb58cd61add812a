"""Attention maps: the recorded probabilities, without having recorded them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from k3scope.model import load, trace
from k3scope.model.init import random_model
from k3scope.model.measure import attention, binning
from k3scope.model.presets import KIMI_LINEAR

LAYER = 7


def prompt(length: int) -> torch.Tensor:
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(length))


@pytest.fixture(scope="module")
def run():
    return trace(load("k3-random", torch.float64), prompt(50))


def test_a_map_is_what_the_model_computed(run):
    recorded = run.layer(LAYER, "self_attn.attention.probs")[0]
    for head in range(6):
        torch.testing.assert_close(attention.probs(run, LAYER, head), recorded[head], rtol=0, atol=1e-12)
    image = attention.attention_map(run, LAYER, 2)
    np.testing.assert_allclose(image.sum(-1), 1, rtol=1e-6)
    assert (np.triu(image, 1) == 0).all()


def test_a_crop_is_exact(run):
    full = attention.attention_map(run, LAYER, 3)
    crop = attention.attention_map(run, LAYER, 3, slice(10, 30), slice(5, 12))
    np.testing.assert_array_equal(crop.shape, (20, 7))
    np.testing.assert_allclose(crop, full[10:30, 5:12], rtol=1e-6)


def test_both_keys_together_are_the_score(run):
    """Recomputed from the layer's own projections: the concatenated key of the release."""
    own, shared = attention.scores(run, LAYER, 4)
    q = run.layer(LAYER, "self_attn.q_b_proj")[0].unflatten(-1, (6, 56))[:, 4]
    k = run.layer(LAYER, "self_attn.kv_b_proj")[0].unflatten(-1, (6, 104))[:, 4, :40]
    key = torch.cat([k, run.layer(LAYER, "self_attn.shared_key")[0]], -1)
    torch.testing.assert_close(own + shared, q @ key.T * 56**-0.5, rtol=0, atol=1e-12)
    parts = attention.score_parts(run, LAYER, 4)
    assert all(np.isnan(p[np.triu_indices(50, 1)]).all() for p in parts)
    total = torch.tensor(sum(parts)).double().nan_to_num(-torch.inf).softmax(-1)
    np.testing.assert_allclose(total, attention.probs(run, LAYER, 4), rtol=1e-5)


def test_share_of_the_shared_key(run):
    result = attention.shared_key_share(run, LAYER)
    own, shared = attention.score_parts(run, LAYER, 2)
    spread = [np.mean([np.var(part[t, : t + 1]) for t in range(1, 50)]) for part in (own, shared)]
    assert result[2] == pytest.approx(spread[1] / sum(spread), rel=1e-5)
    assert result.shape == (6,)


def test_summary_of_the_heads(run):
    result = attention.heads_summary(run, LAYER)
    p = run.layer(LAYER, "self_attn.attention.probs")[0].numpy()  # [heads, T, T]
    np.testing.assert_allclose(result.sink[1:], p[:, 1:, 0].T, rtol=1e-6)
    np.testing.assert_allclose(result.itself[1:], np.diagonal(p, axis1=1, axis2=2)[:, 1:].T, rtol=1e-6)
    q = np.where(p > 0, p, 1)
    np.testing.assert_allclose(result.entropy[1:], -(q * np.log(q)).sum(-1)[:, 1:].T, rtol=1e-6)
    assert np.isnan(result.entropy[0]).all()
    gate = run.layer(LAYER, "self_attn.gate")[0].view(50, 6, 64).mean(-1)
    np.testing.assert_allclose(result.gate, gate, rtol=1e-6)


def test_a_layer_without_latent_queries_and_gate_has_maps_too():
    config = replace(
        KIMI_LINEAR, vocab=50, d=24, kinds=("kda", "mla"), dense=40, kda_heads=2, kda_head_dim=8, heads=3,
        kv_rank=12, nope_dim=6, shared_key_dim=4, v_dim=5, experts=5, top_k=2, expert_dim=7, a_log_stored=2,
        gate_rank=4,
    )  # fmt: skip
    run = trace(random_model(config), prompt(9) % 50)
    recorded = run.layer(1, "self_attn.attention.probs")[0]
    torch.testing.assert_close(attention.probs(run, 1, 1), recorded[1])
    assert attention.heads_summary(run, 1).gate is None


def test_what_is_not_there_is_refused(run):
    with pytest.raises(ValueError, match=r"MLA layers: \[3, 7, 8\]"):
        attention.attention_map(run, 0, 0)
    with pytest.raises(ValueError, match="heads 0 to 5; there is no head 6"):
        attention.attention_map(run, LAYER, 6)


@pytest.mark.parametrize("shape", [(300, 300), (5, 400), (129, 128), (1, 1), (128, 128)])
@pytest.mark.parametrize("how", ["max", "mean"])
def test_bins_cover_everything_once(shape, how):
    image = np.random.default_rng(0).random(shape).astype(np.float32)
    image[:, -1] = np.nan
    result = binning.binned(image, how=how)
    assert max(result.image.shape) <= 128
    assert result.exact == (max(shape) <= 128)
    for i, j in ((0, 0), (-1, -1), (result.image.shape[0] // 2, result.image.shape[1] // 2)):
        rows, columns = (
            result.rows[i % len(result.image) :][:2],
            result.columns[j % result.image.shape[1] :][:2],
        )
        cell = image[slice(*rows), slice(*columns)]
        expected = np.nan if np.isnan(cell).all() else getattr(np, f"nan{how}")(cell)
        np.testing.assert_allclose(result.image[i, j], expected, rtol=1e-6)
    assert (result.rows[0], result.columns[0], result.rows[-1], result.columns[-1]) == (0, 0, *shape)


def test_a_mosaic_holds_every_map_where_it_says():
    maps = [np.full((3, 4), n, dtype=np.float32) for n in range(7)]
    image, across = binning.mosaic(maps)
    assert (across, image.shape) == (3, (11, 14))
    for n in range(7):
        top, left = n // across * 4, n % across * 5
        assert (image[top : top + 3, left : left + 4] == n).all()
    assert np.isnan(image).sum() == image.size - 7 * 12
    assert binning.tile_side(96) ** 2 * 96 <= binning.CELLS
    assert binning.tile_side(6) == binning.LIMIT


def test_infinity_is_not_absence():
    image = np.zeros((200, 200), dtype=np.float32)
    image[3, 3] = np.inf
    assert np.isinf(binning.binned(image).image).sum() == 1


def test_a_nan_makes_its_pooled_cell_nan_and_absent_cells_do_not():
    image = np.arange(400.0).reshape(20, 20)
    image[7, 3] = np.nan
    later = np.triu(np.ones(image.shape, dtype=bool), 1)
    result = binning.largest(np.where(later, np.nan, image), later, limit=10).image
    assert np.isnan(result[3, 1])
    assert np.isnan(result[np.tril_indices(10)]).sum() == 1
    assert result[4, 4] == image[9, 9]

"""The memory of KDA: recomputed step by step, and the same whichever way it is computed."""

import numpy as np
import pytest
import torch

from k3scope.model import load, trace
from k3scope.model.kernels import native, reference
from k3scope.model.measure import half_life, kda_memory

LAYER = 5


def prompt(length: int) -> torch.Tensor:
    return torch.randint(0, 256, (length,), generator=torch.Generator().manual_seed(length))


@pytest.fixture(scope="module")
def exact():
    return load("k3-random", torch.float64)


@pytest.fixture(scope="module")
def run(exact):
    return trace(exact, prompt(40))


@pytest.mark.parametrize("length", [1, 3, 17, 70])
def test_split_by_source_token_reproduces_the_read_out(exact, length):
    run = trace(exact, prompt(length))
    x = kda_memory.inputs(run, LAYER)
    weights = kda_memory.read_weights(x)  # [T, heads, T]
    out = torch.einsum("ths,shv->thv", weights, x.v[0])
    assert (out - run.layer(LAYER, "self_attn.delta_rule.out")[0]).abs().max() < 1e-9
    assert weights.transpose(0, 1).triu(1).abs().max() == 0  # nothing comes from later tokens
    np.testing.assert_allclose(kda_memory.reads(run, LAYER, 3), weights[:, 3].float(), rtol=1e-6)


def test_the_state_after_the_last_token_is_the_recorded_one(run):
    full = run.layer(LAYER, "self_attn.delta_rule.state")[0]
    np.testing.assert_allclose(kda_memory.state_after(run, LAYER, 2, 39), full[2].float(), atol=1e-7)
    _, half = reference.kda(*kda_memory.inputs(run, LAYER).until(20).all)
    np.testing.assert_allclose(kda_memory.state_after(run, LAYER, 4, 19), half[0, 4].float(), atol=1e-7)


def test_a_write_turns_the_state_before_into_the_state_after(run):
    result = kda_memory.write_of(run, LAYER, 1, 30)
    before, after = (kda_memory.state_after(run, LAYER, 1, t) for t in (29, 30))
    alpha = run.layer(LAYER, "self_attn.decay")[0, 30, 1].exp().numpy()
    update = result.strength * np.outer(result.key, result.value - result.old)
    np.testing.assert_allclose(alpha[:, None] * before + update, after, atol=1e-6)
    first = kda_memory.write_of(run, LAYER, 1, 0)
    assert (first.old == 0).all()


def test_steps_agree_with_single_writes_and_states(run):
    result = kda_memory.steps(run, LAYER)
    for head, token in ((0, 0), (2, 17), (4, 39)):
        state = kda_memory.state_after(run, LAYER, head, token)
        assert result.state[token, head] == pytest.approx(np.linalg.norm(state), rel=1e-5)
        w = kda_memory.write_of(run, LAYER, head, token)
        size = w.strength * np.linalg.norm(w.key)
        assert result.erased[token, head] == pytest.approx(size * np.linalg.norm(w.old), rel=1e-4, abs=1e-9)
        assert result.written[token, head] == pytest.approx(size * np.linalg.norm(w.value), rel=1e-4)
        assert result.change[token, head] == pytest.approx(size * np.linalg.norm(w.value - w.old), rel=1e-4)
    assert (result.cosine[0] == 0).all()
    assert (np.abs(result.cosine) <= 1 + 1e-6).all()


@pytest.mark.parametrize("length", [1, 15, 16, 65])
def test_every_form_computes_the_same(tiny, length):
    result = kda_memory.forms(trace(tiny, prompt(length)), 2)
    assert {"recurrent", "chunked", "decode", "run"} <= result.keys()
    assert ("C++" in result) == (native.library("kda") is not None)
    assert max(result.values()) < 2e-6  # float32 against float64


def test_decay_and_write_are_shares(run, exact):
    c = exact.config
    channels = half_life.half_life_of_channels(run, LAYER)
    assert channels.shape == (c.kda_heads, c.kda_head_dim)
    decay = run.layer(LAYER, "self_attn.decay")[0].numpy()
    middle = np.sort(np.log(2) / -decay, axis=0)[(40 - 1) // 2]
    np.testing.assert_allclose(channels, middle, rtol=1e-6)
    np.testing.assert_allclose(half_life.retention(run, LAYER), np.exp(decay).mean(-1), rtol=1e-6)
    for share in (
        half_life.retention(run, LAYER),
        half_life.write_strength(run, LAYER),
        half_life.gate(run, LAYER),
    ):
        assert share.shape == (40, c.kda_heads)
        assert ((share > 0) & (share < 1)).all()


def test_what_is_not_there_is_refused(run):
    with pytest.raises(ValueError, match="KDA heads 0 to 4; there is no head 5"):
        kda_memory.reads(run, LAYER, 5)
    with pytest.raises(ValueError, match="there is no token 40"):
        kda_memory.state_after(run, LAYER, 0, 40)
    with pytest.raises(ValueError, match="there is no token -1"):
        kda_memory.write_of(run, LAYER, 0, -1)


def test_nan_stays_nan(tiny):
    point = f"language_model.model.layers.{LAYER}.self_attn.write"
    broken = trace(tiny, prompt(9), edits={point: lambda x: x.index_fill(1, torch.tensor([4]), torch.nan)})
    result = kda_memory.steps(broken, LAYER).state
    assert np.isfinite(result[:4]).all()
    assert np.isnan(result[4:]).all()

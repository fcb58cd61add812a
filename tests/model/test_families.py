"""Kimi-Linear and the small public K3s are built from their official configs by the same classes."""

import dataclasses

import pytest
import torch

from k3scope.model import meta
from k3scope.model.accounting import count
from k3scope.model.init import random_model
from k3scope.model.norm import widen
from k3scope.model.presets import KIMI_LINEAR
from k3scope.model.tracing import official_trace


def small_linear():
    return dataclasses.replace(
        KIMI_LINEAR, vocab=64, d=32, kinds=("kda", "mla", "kda"), dense=48, kda_heads=2, kda_head_dim=8,
        gate_rank=8, heads=4, kv_rank=24, nope_dim=8, shared_key_dim=4, v_dim=8, experts=6, top_k=2,
        expert_dim=16, a_log_stored=2, bos=0, eos=1, pad=2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parameters"), [("kimi-linear-48b", 49_122_681_728), ("kimi-k3-0.40b", 388_598_824)]
)
def test_text_parameters_are_the_published_ones(name, parameters):
    model = meta(name)
    assert count(model.language_model) == parameters


def test_kimi_linear_modules_have_the_published_sizes():
    layers = meta("kimi-linear-48b").language_model.model.layers
    assert count(layers[0].self_attn) == 39_514_272
    assert count(layers[3].self_attn) == 29_114_880
    assert count(layers[1].block_sparse_moe) == 1_819_607_296


def test_kimi_linear_runs_and_decodes():
    model = random_model(small_linear()).double()
    ids = torch.randint(0, 64, (2, 9), generator=torch.Generator().manual_seed(0))
    full, cache = model(ids), model.new_cache()
    steps = torch.cat([model(ids[:, t : t + 1], cache) for t in range(9)], 1)
    torch.testing.assert_close(steps, full, rtol=0, atol=1e-12)


def test_kimi_linear_traces_what_it_has():
    tensors = official_trace(random_model(small_linear()), torch.tensor([[1, 2, 3]]))
    assert {
        "logits",
        "layers.0.kda.final_state_vk",
        "layers.1.self_attn.out",
        "layers.2.router.margin",
    } <= set(tensors)
    assert not [name for name in tensors if "_res." in name or "num_blocks" in name]


def test_softplus_decay_has_no_floor():
    model = random_model(small_linear())
    kda = model.language_model.model.layers[0].self_attn
    decay = kda.log_decay(torch.full((1, 1, 16), 100.0))
    expected = -widen(kda.A_log).exp() * 100  # softplus(100) = 100
    torch.testing.assert_close(decay[0, 0, :, 0], expected)
    assert decay.min() < -5

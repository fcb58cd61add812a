"""Costs: the published numbers exactly, and the formulas against the counter."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from k3scope.diagrams.cost import roofline
from k3scope.diagrams.cost.roofline import Point
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.model.presets import KIMI_K3


@pytest.fixture(scope="module")
def k3():
    return Facts.of("kimi-k3")


def test_the_cache_is_27_kib_a_token():
    assert roofline.latent_bytes_per_token(KIMI_K3) == 27_648
    assert roofline.latent_bytes_per_token(KIMI_K3) * 1_048_576 == 27 * 2**30


def test_the_states_are_constant_and_known():
    assert roofline.state_bytes(KIMI_K3) == 449_372_160
    assert roofline.state_bytes(KIMI_K3, "fp32") == 464_633_856


def test_states_and_cache_cross_where_the_facts_say():
    assert roofline.crossover(KIMI_K3) == 16_253
    assert roofline.crossover(KIMI_K3, "fp32") == 16_805


def test_one_token_touches_top_k_experts_and_many_touch_nearly_all():
    assert roofline.experts_touched(KIMI_K3, 1) == pytest.approx(16)
    assert 700 < roofline.experts_touched(KIMI_K3, 100) < 800
    assert roofline.experts_touched(KIMI_K3, 10_000) == pytest.approx(896, abs=1e-6)


def test_weights_of_one_token_are_the_active_parameters(k3):
    one = roofline.cost(k3, Point(context=1))
    as_bf16 = roofline.cost(k3, Point(context=1, experts_as="fp8"))
    active = k3.totals.active
    routed = 92 * 16 * 33_030_144
    assert as_bf16.weight_bytes == pytest.approx((active - routed) * 2 + routed)
    assert one.weight_bytes == pytest.approx((active - routed) * 2 + routed * 17_547_264 / 33_030_144)


@pytest.mark.parametrize(("B", "T"), [(1, 1), (1, 9), (2, 5), (3, 16)])
def test_prefill_flops_equal_the_counter(tiny, B, T):
    with FlopCounterMode(display=False) as counter:
        tiny(torch.zeros(B, T, dtype=torch.long))
    assert roofline.flops(Facts.of("k3-random"), Point(T, B, "prefill")) == counter.get_total_flops()


@pytest.mark.parametrize(("B", "T"), [(1, 4), (2, 11)])
def test_decode_flops_equal_the_counter_but_for_keys_expanded_again(tiny, B, T):
    """Our reference expands every cached latent again; a serving kernel absorbs that projection."""
    c, cache = tiny.config, tiny.new_cache()
    tiny(torch.zeros(B, T - 1, dtype=torch.long), cache)
    with FlopCounterMode(display=False) as counter:
        tiny(torch.zeros(B, 1, dtype=torch.long), cache)
    again = 2 * B * (T - 1) * c.kv_rank * c.heads * (c.nope_dim + c.v_dim) * c.kinds.count("mla")
    assert roofline.flops(Facts.of("k3-random"), Point(T, B, "decode")) == counter.get_total_flops() - again


def test_attention_at_a_million_tokens_is_what_the_facts_say(k3):
    long, short = (roofline.flops(k3, Point(n)) for n in (1_048_576, 1))
    assert long - short == pytest.approx(2 * 24 * 96 * (192 + 128) * 1_048_575)


def test_decode_is_bound_by_memory_and_prefill_by_compute(k3):
    device = roofline.DEVICES[1]
    assert roofline.cost(k3, Point(1024)).seconds(device, 8)[1] == "memory"
    assert roofline.cost(k3, Point(65_536, phase="prefill")).seconds(device, 8)[1] == "compute"


@pytest.mark.parametrize(
    "bad", [{"context": 0}, {"batch": 0}, {"phase": "train"}, {"experts_as": "int3"}, {"conv_state": "fp8"}]
)
def test_a_point_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="expected"):
        Point(**bad)


def test_a_curve_grows_with_the_context(k3):
    costs = roofline.curve(k3, Point(), [1, 1000, 100_000])
    assert [c.cache_bytes for c in costs] == [27_648 * n + 449_372_160 for n in (1, 1000, 100_000)]
    assert costs[0].flops < costs[1].flops < costs[2].flops

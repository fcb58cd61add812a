"""What the cost view says: parts that sum to the step, formulas that give the number beside them."""

import pytest

from k3scope.diagrams.cost import roofline
from k3scope.diagrams.cost.breakdown import cost_parts, operations, readings, seconds
from k3scope.diagrams.cost.roofline import DEVICES, Point
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import formula

POINTS = [Point(), Point(1), Point(1_048_576, 64), Point(4096, 3, "prefill", "bf16", "fp32")]


@pytest.fixture(scope="module", params=["kimi-k3", "k3-random", "kimi-linear-48b"])
def facts(request):
    return Facts.of(request.param)


def of(facts, point=Point(), device=DEVICES[1], count=16):  # noqa: B008
    return {r.id: r for r in readings(facts, point, device, count)}


@pytest.mark.parametrize("point", POINTS)
def test_the_parts_sum_to_the_step(facts, point):
    parts, step = cost_parts(facts, point), roofline.cost(facts, point)
    assert sum(p.flops for p in parts) == pytest.approx(step.flops, rel=1e-12)
    assert sum(p.weight_bytes for p in parts) == pytest.approx(step.weight_bytes, rel=1e-12)


@pytest.mark.parametrize("point", POINTS)
def test_the_flops_formulas_give_their_number(facts, point):
    for part in cost_parts(facts, point):
        terms, _, result = part.flops_how.rpartition(" = ")
        assert result == f"{part.flops:,.0f}"
        if terms != "no matrix product":
            assert formula.evaluate(terms.replace(",", "").replace("×", "*"), {}) == part.flops


@pytest.mark.parametrize("conv", ["bf16", "fp32"])
def test_the_published_numbers_are_said(conv):
    by_id = of(Facts.of("kimi-k3"), Point(conv_state=conv))
    assert "27,648 B per token" in by_id["latents"].note
    assert by_id["crossover"].value == {"bf16": "16,253 tokens", "fp32": "16,805 tokens"}[conv]
    assert by_id["latents"].how == "1 × 16,384 × 24 × (512 + 64) × 2 B = 452,984,832 B"
    assert {"bf16": "449,372,160", "fp32": "464,633,856"}[conv] in by_id["states"].how


def test_one_token_touches_16_experts_and_decode_is_bound_by_memory():
    by_id = of(Facts.of("kimi-k3"), Point(1024))
    assert by_id["touched"].value == "16 of 896"
    assert "bound by memory" in by_id["time"].note
    assert "bound by compute" in of(Facts.of("kimi-k3"), Point(65_536, phase="prefill"))["time"].note


def test_prefill_reads_no_cache_and_says_so():
    cost = roofline.cost(Facts.of("kimi-k3"), Point(1000, phase="prefill"))
    assert cost.cache_bytes == 0
    assert "not read" in of(Facts.of("kimi-k3"), Point(1000, phase="prefill"))["latents"].note


def test_the_release_does_not_fit_in_eight_h200():
    assert "does not fit" in of(Facts.of("kimi-k3"), count=8)["held"].note
    assert of(Facts.of("kimi-k3"))["held"].note.startswith("fits in")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00123, "1.23 ms"),
        (2.5, "2.5 s"),
        (4e-5, "40 µs"),
        (5e-9, "5 ns"),
        (7200, "7,200 s"),
        (0.99996, "1 s"),
        (0.01, "10 ms"),
        (10.0**-3, "1 ms"),
    ],
)
def test_durations_have_a_unit(value, text):
    assert seconds(value) == text


def test_operations_have_a_unit():
    assert operations(2.08e11) == "208 GFLOP"
    assert operations(12) == "12 FLOP"
    assert operations(9.999e11) == "1 TFLOP"

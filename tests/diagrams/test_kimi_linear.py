"""The older family through the same descriptions: what K3 changed has its own lines, the rest is shared."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from diagrams import cost, formula, spec
from diagrams.cost import Point
from diagrams.facts import Facts
from diagrams.instances import exists, parameters, probes, resolve

PARAMETERS = 49_122_681_728
ONLY_K3 = {
    "attn_mix", "ffn_mix", "output_mix", "block_store", "splice", "mla_q_down", "mla_q_norm",
    "mla_output_gate", "moe_latent_down", "moe_latent_norm", "moe_latent_up",
}  # fmt: skip


@pytest.fixture(scope="module")
def linear():
    return Facts.of("kimi-linear-48b")


def test_every_parameter_and_probe_has_exactly_one_block(linear):
    owners: dict[str, list[str]] = {}
    for block in linear.blocks.values():
        for path in linear.instances(block):
            own = {resolve(path, leaf) for leaf in block.leaves} & probes(linear.model)
            for leaf in own | parameters(linear.model, block, path).keys():
                owners.setdefault(leaf, []).append(block.id)
    assert {k: v for k, v in owners.items() if len(v) > 1} == {}
    everything = {name for name, _ in linear.model.named_parameters()} | probes(linear.model)
    assert owners.keys() == everything


def test_the_rows_sum_to_the_release(linear):
    assert linear.totals.total == PARAMETERS
    assert sum(row.total for row in linear.rows()) == PARAMETERS


def test_formulas_give_what_the_tensors_have(linear):
    for block in linear.blocks.values():
        if block.leaves:
            assert formula.evaluate(block.params, linear.sizes) == linear.per_instance(block), block.id


def test_every_output_is_there(linear):
    for block in linear.blocks.values():
        path = linear.instances(block)[-1]
        for point, shape in block.out.items():
            assert exists(linear.model, resolve(path, point)), (block.id, point)
            formula.shape(shape, linear.sizes)


def test_what_only_k3_has_is_absent(linear):
    vision = {"vision", *spec.view("model").inside("vision")}
    assert spec.blocks().keys() - linear.blocks.keys() == ONLY_K3 | vision


@pytest.mark.parametrize(("B", "T"), [(1, 3), (2, 17)])
def test_prefill_flops_equal_the_counter(linear, B, T):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        linear.model(torch.zeros(B, T, dtype=torch.long, device="meta"))
    assert cost.flops(linear, Point(T, B, "prefill")) == counter.get_total_flops()

"""The older family through the same descriptions: what K3 changed has its own lines, the rest is shared."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from k3scope.assets import CONFIGS
from k3scope.diagrams.cost import roofline
from k3scope.diagrams.cost.compare_models import facts_of, read_config
from k3scope.diagrams.cost.roofline import Point
from k3scope.diagrams.facts import check, code_listing, derivation, symbols
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import is_parameter, parameters, points, probes, resolve
from k3scope.diagrams.scene import block_contents, graph, search
from k3scope.diagrams.spec import block_spec, formula
from k3scope.model.hooks import record, watch
from k3scope.model.presets import DRAWN

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


@pytest.fixture(scope="module")
def measured(linear):
    """Shapes of every point, at B 1 and T 17."""
    with record() as values:
        watch(linear.model)(torch.zeros(1, 17, dtype=torch.long, device="meta"))
    return values


def first(value):
    return value[0] if isinstance(value, tuple) else value


def test_shapes_of_outputs_and_symbols_are_the_measured_ones(linear, measured):
    for block in linear.blocks.values():
        path = linear.instances(block)[-1]
        for point, shape in block.out.items():
            value = first(measured[resolve(path, point)])
            assert tuple(value.shape) == formula.shape(shape, linear.sizes), (block.id, point)
        for symbol in block.symbols:
            if symbol.is_ == "local" or symbol.is_ in linear.sizes:
                continue
            full = resolve(path, symbol.is_)
            held = is_parameter(linear.model, full)
            value = first(linear.model.get_parameter(full) if held else measured[full])
            assert tuple(value.shape) == formula.shape(symbol.shape, linear.sizes), (block.id, symbol.symbol)


def test_every_advertised_point_fires(linear, measured):
    for block in linear.blocks.values():
        for path in linear.instances(block):
            assert set(points(linear.model, block, path)) <= measured.keys(), block.id


def test_the_code_on_show_is_the_class_that_runs(linear):
    for block in linear.blocks.values():
        shown = code_listing.listings(linear.model, block)
        run = {type(linear.model.get_submodule(path)) for path in linear.instances(block)}
        assert run & {linear.model.__class__} or any(
            f"class {cls.__name__}(" in item.text for cls in run for item in shown
        ), block.id
        if block.leaves and len(block.leaves) < 5 and cls_is_shared(block):
            assert any(item.marked for item in shown), block.id


def cls_is_shared(block) -> bool:
    """Several blocks are parts of one class."""
    return set(block.of) & {"KimiDeltaAttention", "GatedMLA", "PlainMLA", "ResidualLayer"} != set()


@pytest.mark.parametrize("name", DRAWN)
def test_every_drawn_model_is_described_and_drawn_layer_by_layer(name):
    facts = Facts.of(name)
    assert check.problems(facts) == []
    for block in facts.blocks:
        shown = facts.block(block)
        assert shown.equation
        assert "{" not in shown.notes + shown.sub
        assert shown.sources
        assert len(symbols.locations(facts, block)) == len(shown.symbols)
        derivation.derivation(facts, block)
    for layer in (None, *range(facts.config.layers)):
        drawn = graph.scene(name, opened=("decoder_layer", "kda", "mla", "latent_moe"), layer=layer)
        assert {n["id"] for n in drawn["nodes"] if not n["io"]} <= facts.blocks.keys()
        assert drawn["edges"]
    assert search.index(name)


def test_kimi_linear_says_nothing_of_what_only_k3_has(linear):
    for block in linear.blocks:
        shown = linear.block(block)
        words = " ".join([shown.summary, shown.sub, shown.equation, derivation.derivation(linear, block)])
        assert not any(word in words for word in ("mixture over", "running sum", "AttnRes", "SiTU")), block
        assert shown.others == []


def test_a_config_that_somebody_brings_is_drawn():
    text = (CONFIGS / "kimi-linear-48b.json").read_text()
    facts = facts_of(read_config(text.replace('"hidden_size": 2304', '"hidden_size": 2048')), "mine")
    drawn = graph.scene(facts)
    assert "[B, T, d] [1, 17, 2048]" in {" ".join(e["label"]) for e in drawn["edges"]}


def test_tensors_have_the_names_and_types_that_the_notes_say(linear):
    named = [t for block in linear.blocks for t in linear.block(block).tensors]
    assert all(name.startswith("model.") or name == "lm_head.weight" for name, _, _ in named)
    stored = {
        (t.id, t.stored[0].dtype) for b in linear.blocks for t in block_contents.contents(linear, b).tensors
    }
    assert {name for name, dtype in stored if dtype == "F32"} == {"A_log", "dt_bias"}
    assert {dtype for _, dtype in stored} == {"BF16", "F32"}
    first = search.search(linear, "q_conv1d.weight")[0]
    assert "".join(first.text) == "model.layers.L.self_attn.q_conv1d.weight"


def test_what_only_k3_has_is_absent(linear):
    vision = {"vision", *block_spec.view("model").inside("vision")}
    assert block_spec.blocks().keys() - linear.blocks.keys() == ONLY_K3 | vision


@pytest.mark.parametrize(("B", "T"), [(1, 3), (2, 17)])
def test_prefill_flops_equal_the_counter(linear, B, T):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        linear.model(torch.zeros(B, T, dtype=torch.long, device="meta"))
    assert roofline.flops(linear, Point(T, B, "prefill")) == counter.get_total_flops()

"""What the YAML says is what the live model is: on the small model and on the full one."""

import inspect

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import k3scope.model as package
from k3scope.diagrams.facts import code_listing
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import (
    exists,
    instances,
    is_parameter,
    parameters,
    points,
    probes,
    resolve,
)
from k3scope.diagrams.spec import block_spec, formula
from k3scope.model.kimi_k3 import KimiK3

ALL = sorted(block_spec.blocks())
LEAVES = [i for i in ALL if i not in block_spec.groups()]
SHARED = {"KimiDeltaAttention", "GatedMLA", "DecoderLayer", "VisionBlock"}  # several blocks are parts of one


@pytest.fixture(params=["tiny", "full"])
def live(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["tiny", "full"])
def measured(request, tiny, full, tiny_trace, full_trace, clip):
    """Model, sizes with the B and T of its trace, and the value of every point."""
    if request.param == "tiny":
        return tiny, tiny.config.sizes() | {"B": 2, "T": 11} | clip.sizes, tiny_trace.values
    return full, full.config.sizes() | {"B": 1, "T": 17} | clip.sizes, full_trace


def test_leaves_partition_parameters_and_probes(live, blocks):
    owners: dict[str, list[str]] = {}
    for block in blocks.values():
        for path in instances(live, block):
            for leaf in block.leaves:
                full_path = resolve(path, leaf)
                if exists(live, full_path):
                    owners.setdefault(full_path, []).append(block.id)
    assert {k: v for k, v in owners.items() if len(v) > 1} == {}
    expected = {n for n, _ in live.named_parameters()} | probes(live)
    owned = {k for k in owners if is_parameter(live, k) or k in probes(live)}
    assert expected - owned == set()
    assert set(owners) - expected == set(), "a leaf that is neither parameter nor probe"


def test_every_own_class_is_some_blocks_class(live, blocks):
    named = {name for b in blocks.values() for name in b.of}
    own = {type(m).__name__ for m in live.modules() if type(m).__module__.startswith("k3scope.model.")}
    assert own - {"Probe"} <= named


@pytest.mark.parametrize("block_id", LEAVES)
def test_parameter_formulas_equal_the_tensors(live, blocks, block_id):
    block = blocks[block_id]
    expected = formula.evaluate(block.params, live.config.sizes())
    for path in instances(live, block):
        assert sum(p.numel() for p in parameters(live, block, path).values()) == expected, path


@pytest.mark.parametrize("block_id", ALL)
def test_output_shapes_are_the_measured_ones(measured, blocks, block_id):
    live, sizes, values = measured
    block = blocks[block_id]
    assert block.out
    for path in instances(live, block):
        for point, text in block.out.items():
            value = values[resolve(path, point)]
            value = value[0] if isinstance(value, tuple) else value
            assert tuple(value.shape) == formula.shape(text, sizes), (path, point)


@pytest.mark.parametrize("block_id", ALL)
def test_symbols_are_points_parameters_or_sizes(measured, blocks, block_id):
    live, sizes, values = measured
    block = blocks[block_id]
    path = instances(live, block)[-1]
    assert block.symbols, "an equation without symbols"
    for symbol in block.symbols:
        if symbol.is_ == "local" or symbol.is_ in sizes:
            continue
        full_path = resolve(path, symbol.is_)
        assert exists(live, full_path), f"{block_id}: {symbol.is_!r} is no point, parameter or Config field"
        value = live.get_parameter(full_path) if is_parameter(live, full_path) else values[full_path]
        value = value[0] if isinstance(value, tuple) else value
        if "candidates" in symbol.shape:
            sizes = sizes | {"candidates": live.get_submodule(path).candidates}
        assert tuple(value.shape) == formula.shape(symbol.shape, sizes), (block_id, symbol.symbol)


@pytest.mark.parametrize("block_id", ALL)
def test_every_advertised_point_fires(measured, blocks, block_id):
    live, _, values = measured
    block = blocks[block_id]
    for path in instances(live, block):
        assert set(points(live, block, path)) <= values.keys()


@pytest.fixture(scope="module", params=["tiny", pytest.param("full", marks=pytest.mark.slow)])
def counted(request, clip):
    """A model and its FLOPs per module, measured at two texts and a clip."""
    live = request.getfixturevalue(request.param)
    device = next(live.parameters()).device
    counts = []
    for B, T in ((1, 1), (2, 9)) if request.param == "tiny" else ((1, 3), (2, 17)):
        ids = torch.zeros(B, T, dtype=torch.long, device=device)
        counts.append(({"B": B, "T": T, "N": 0, "M": 0}, *flops(lambda ids=ids: live(ids))))
    see = lambda: live.mm_projector(live.vision_tower(clip(live)))  # noqa: E731
    return live, [*counts, ({"B": 0, "T": 0} | clip.sizes, *flops(see))]


ROOTS = {"KimiK3.": "", "VisionTower": "vision_tower", "Projector": "mm_projector"}


def flops(run) -> tuple[dict[str, int], int]:
    """By path, and all."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    table = {}
    for path, kinds in counter.flop_counts.items():
        root = next((r for r in ROOTS if path.startswith(r)), "")
        table[ROOTS.get(root, "") + path.removeprefix(root)] = sum(kinds.values())
    return table, counter.get_total_flops()


def owning_modules(live: KimiK3, block, path: str) -> set[str]:
    """The modules whose work is this block's: owners of its parameters, its own outputs, or itself."""
    own = {p.rpartition(".")[0] for p in parameters(live, block, path)}
    own |= {resolve(path, p) for p in block.out}
    if type(live.get_submodule(path)).__name__ in SHARED:
        return own - {path}  # a few lines of a larger class: not all that the class does
    return own | {path}


@pytest.mark.parametrize("block_id", LEAVES)
def test_flop_formulas_equal_the_counter(counted, blocks, block_id):
    block = blocks[block_id]
    live, counts = counted
    for point, table, _ in counts:
        expected = formula.evaluate(block.flops, live.config.sizes() | point)
        for path in instances(live, block):
            own = owning_modules(live, block, path)
            outer = {m for m in own if not any(m.startswith(o + ".") for o in own)}
            assert sum(table.get(m, 0) for m in outer) == expected, path


def test_flops_of_the_blocks_are_all_flops(counted, blocks):
    live, counts = counted
    for point, _, total in counts:
        sizes = live.config.sizes() | point
        leaves = [blocks[i] for i in LEAVES]
        assert sum(formula.evaluate(b.flops, sizes) * len(instances(live, b)) for b in leaves) == total


@pytest.mark.parametrize("block_id", ALL)
def test_the_code_on_show_is_the_class_that_runs(live, blocks, block_id):
    block = blocks[block_id]
    listings = code_listing.listings(live, block)
    for path in instances(live, block):
        module = live.get_submodule(path)
        if type(module).__name__ == block.of[0]:
            assert listings[0].text.strip() == inspect.getsource(type(module)).strip()
    assert all(1 <= line <= len(item.text.splitlines()) for item in listings for line in item.marked)
    if block.leaves and type(live.get_submodule(instances(live, block)[0])).__name__ in SHARED:
        assert listings[0].marked, "lines about this block are marked"


@pytest.mark.parametrize("block_id", ALL)
def test_summaries_are_one_short_line(blocks, block_id):
    summary = Facts.of("k3-random").block(block_id).summary
    assert 0 < len(summary) <= 90
    assert "\n" not in summary


@pytest.mark.parametrize("block_id", ALL)
def test_texts_are_complete(blocks, block_id):
    block = Facts.of("kimi-k3").block(block_id)
    assert block.equation
    assert block.notes.strip()
    assert "{" not in block.notes
    assert block.sources
    for claim in block.others:
        assert claim.keys() == {"says", "release", "source"}


@pytest.mark.parametrize("name", ["kimi-k3", "k3-random"])
def test_the_ledger_sums_to_the_total(name):
    facts = Facts.of(name)
    assert sum(r.total for r in facts.rows()) == facts.totals.total
    assert all(r.total == r.per_instance * r.count for r in facts.rows())
    assert facts.block("kimi_k3").total == facts.totals.total
    assert facts.block("vision").total == facts.totals.vision


def test_a_model_without_a_tower_has_no_vision_blocks(data):
    facts = Facts.of(str(data / "a_mix13"))
    assert "splice" in facts.blocks
    assert not {n.id for n in facts.view.nodes} & {"vision", "vision_qkv", "image"}
    assert sum(r.total for r in facts.rows()) == facts.totals.text
    with pytest.raises(ValueError, match="has no block 'vision'"):
        facts.block("vision")


@pytest.mark.parametrize("group", sorted(block_spec.groups() - {"kimi_k3", "decoder_layer"}))
def test_a_groups_leaves_are_all_its_parameters(live, blocks, group):
    """The drawn inside of a group accounts for every parameter of its module."""
    block = blocks[group]
    held = sum(sum(p.numel() for p in live.get_submodule(i).parameters()) for i in instances(live, block))
    inside = [blocks[i] for i in block_spec.view("model").inside(group)]
    ours = sum(p.numel() for b in inside for i in instances(live, b) for p in parameters(live, b, i).values())
    assert ours == held


def test_nothing_but_torch_and_our_code_is_shown():
    assert issubclass(package.KimiK3, nn.Module)
    for block_id in ALL:
        for item in Facts.of("k3-random").block(block_id).listings:
            assert "model/" in item.label or "torch." in item.label, item.label

"""What a block opens to is what its code does: recorded operations against formulas, tensors and arrows."""

from dataclasses import replace

import pytest

from k3scope.diagrams.cost.compare_models import facts_of
from k3scope.diagrams.facts import op_recorder, operations
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import parameters
from k3scope.diagrams.scene import block_contents, graph
from k3scope.diagrams.spec import block_spec, formula

MODELS = ["kimi-k3", "k3-random", "kimi-linear-48b", "kimi-k3-0.40b"]
POINT = {"B": op_recorder.B, "T": op_recorder.T, "N": 148, "M": 37}


@pytest.fixture(scope="module", params=MODELS)
def facts(request):
    return Facts.of(request.param)


def leaves(facts) -> list[block_spec.Block]:
    return [b for i, b in facts.blocks.items() if i not in block_spec.groups()]


def reads(ops, kind: str) -> set[str]:
    return {name for op in ops for what, name in op.reads if what == kind}


def test_recorded_flops_are_those_of_the_formulas(facts):
    for block in leaves(facts):
        counted = sum(op.flops for op in operations.operations(facts).get(block.id, ()))
        assert counted == formula.evaluate(block.flops, facts.sizes | POINT), block.id


def test_every_tensor_of_a_block_is_read_by_one_of_its_operations(facts):
    for block in leaves(facts):
        own = block_contents.contents(facts, block.id)
        assert {t.id for t in own.tensors} == reads(own.ops, "tensor"), block.id


def test_tensors_are_the_checkpoints(facts):
    for block in leaves(facts):
        path = facts.instances(block)[0]
        mine = parameters(facts.model, block, path)
        own = block_contents.contents(facts, block.id).tensors
        assert sum(t.elements for t in own) == facts.per_instance(block), block.id
        assert sum(t.bytes for t in own) == facts.layout.storage(mine).bytes, block.id
        assert len({t.id for t in own}) == len(own)


def test_an_expert_bank_is_many_tensors():
    w1, *_ = block_contents.contents(Facts.of("kimi-k3"), "moe_experts", 5).tensors
    assert w1.copies == 896
    assert [t.dtype for t in w1.stored] == ["U8", "U8"]
    assert w1.row == "896 × [3072, 3584] MXFP4"
    assert w1.stored[0].name.startswith("language_model.model.layers.5.block_sparse_moe.experts.0.w1")


def test_what_operations_read_of_other_blocks_are_the_arrows(facts):
    drawn = {(e.source, e.target) for e in facts.view.edges}
    for block, ops in operations.operations(facts).items():
        for source in reads(ops, "block") - {block}:
            assert (source, block) in drawn, f"{source} -> {block}"


def test_every_arrow_inside_a_module_is_an_operation_that_reads(facts):
    ops = operations.operations(facts)
    inside = {b for g in ("kda", "mla", "latent_moe") for b in facts.view.inside(g)}
    for edge in facts.view.edges:
        first = edge.target == "kda_short_conv" or edge.source == "kda_short_conv"  # one of three instances
        if {edge.source, edge.target} <= inside and edge.target in ops and not first:
            assert edge.source in reads(ops[edge.target], "block"), f"{edge.source} -> {edge.target}"


def test_all_open_every_box_is_drawn_and_every_arrow_meets_operations(facts):
    scene = graph.scene(facts, opened=tuple(facts.blocks))
    drawn = {n["id"] for n in scene["nodes"]}
    opened = [b.id for b in leaves(facts) if block_contents.contents(facts, b.id)]
    for block in opened:
        assert {f"{block}/{name}" for name in block_contents.part_ids(facts, block)} <= drawn
    ends = {end for e in scene["edges"] for member in e["members"] for end in member}
    assert not ends & set(opened), "an arrow that ends at the border of an open block"


def test_a_mix_names_its_candidates_and_leaves_a_width_that_begins_alike():
    facts = facts_of(replace(Facts.of("k3-random").config, d=256), "mine")
    shapes = {op.id: op.shape for op in operations.operations(facts)["attn_mix"]}
    assert shapes["stack1"] == "[B, T, candidates, 256]"
    assert shapes["sum2"] == "[B, T, 256]"


def test_the_axes_that_depend_on_the_input_are_named():
    ops = {op.id: op for op in operations.operations(Facts.of("kimi-k3"))["mla_attention"]}
    assert ops["bmm1"].shape == "[B, 96, T, T]"
    assert operations.operations(Facts.of("kimi-k3"))["kda_short_conv"][1].shape == "[B, T + 3, 12288]"
    assert {op.title for op in ops.values()} >= {"softmax", "matmul", "× 0.07217"}

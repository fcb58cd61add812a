"""What is chosen inside or beside a block: tensors, operations, arrows with their types and bytes."""

import pytest

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.operations import Op
from k3scope.diagrams.scene import details, edge_values
from k3scope.diagrams.scene.block_contents import Tensor, part_ids
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.shapes import Step

K3 = Facts.of("kimi-k3")


def test_a_tensor_has_its_official_name_shape_type_and_bytes():
    result = details.detail(K3, "mla_q_up", "q_b_proj.weight", 3)
    assert isinstance(result, Tensor)
    (stored,) = result.stored
    assert stored.name == "language_model.model.layers.3.self_attn.q_b_proj.weight"
    assert (stored.shape, stored.dtype, stored.bytes) == ((18432, 1536), "BF16", 56_623_104)
    assert details.detail(K3, "mla_q_up", "q_b_proj.weight").stored[0].name.count(".layers.L.") == 1


def test_an_operation_is_found_and_what_is_none_is_not():
    assert isinstance(details.detail(K3, "kda_decay", "sigmoid1"), Op)
    for wrong in ("sigmoid9", "to.nothing", "from.", "to.kda_decay", "../../etc"):
        assert details.detail(K3, "kda_decay", wrong) is None
    assert details.detail(K3, "kda", "mm1") is None


def test_an_arrow_tells_shape_type_and_bytes():
    (carried,) = details.detail(K3, "kda_decay", "to.kda_delta_rule")
    (value,) = carried.values
    assert (value.symbolic, value.concrete) == ("[B, T, kda_heads, kda_head_dim]", "[1, 17, 96, 128]")
    assert (value.dtype, value.bytes) == ("F32", 17 * 96 * 128 * 4)
    (long,) = details.detail(K3, "kda_decay", "to.kda_delta_rule", step=Step(2, 100))
    assert long.bytes == 2 * 100 * 96 * 128 * 4
    (one,) = details.detail(K3, "kda_decay", "to.kda_delta_rule", step=Step(2, 100, "decode"))
    assert (one.values[0].concrete, one.bytes) == ("[2, 1, 96, 128]", 2 * 96 * 128 * 4)


def test_several_tensors_on_an_arrow_are_told_one_by_one():
    (carried,) = details.detail(K3, "kda_projections", "to.kda_short_conv")
    assert [v.name for v in carried.values] == ["q_proj", "k_proj", "v_proj"]
    (carried,) = details.detail(K3, "kda_l2_norm", "to.kda_delta_rule")
    assert [v.name for v in carried.values] == ["q_l2norm", "k_l2norm"]


def test_closed_groups_and_other_layers_stand_for_what_is_in_them():
    assert [f.source for f in details.detail(K3, "kda", "to.attn_sum")] == ["KDA output projection"]
    assert details.detail(K3, "attn_mix", "from.earlier_layers")
    assert details.detail(K3, "ffn_sum", "to.later_layers")
    assert details.detail(K3, "token_embedding", "from.tokens")[0].values[0].dtype == "I64"


@pytest.mark.parametrize("name", ["kimi-k3", "kimi-linear-48b", "kimi-k3-0.40b", "k3-random"])
def test_every_arrow_and_every_part_can_be_asked(name):
    facts = Facts.of(name)
    for ends, several in edge_values.values_by_edge(facts).items():
        assert all(f.values and f.bytes > 0 for f in several), ends
        source, target = ends.split(">")
        result = details.detail(facts, source, f"to.{target}") or details.detail(
            facts, target, f"from.{source}"
        )
        assert result, ends
    for block in set(facts.blocks) - block_spec.groups():
        assert all(details.detail(facts, block, part) for part in part_ids(facts, block))

"""The types that arrows name, against a forward that really runs."""

import re

import pytest
import torch

from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import resolve
from k3scope.diagrams.facts.operations import TYPES, types
from k3scope.diagrams.scene import graph
from k3scope.diagrams.scene.diagram_file import parse_open
from k3scope.diagrams.scene.edge_values import dtypes
from k3scope.diagrams.scene.graph import scene
from k3scope.diagrams.spec.shapes import Step
from k3scope.model import load

TYPED = Step(types=True)


@pytest.fixture(scope="module")
def ran() -> dict[str, torch.dtype]:
    """What each module of the small model gives in a forward with the weights as stored."""
    model, given = load("k3-random", torch.bfloat16), {}

    def hook_for(path):
        def hook(_module, _args, out):
            first = out[0] if isinstance(out, tuple) else out
            if isinstance(first, torch.Tensor):
                given[path] = first.dtype

        return hook

    for path, module in model.named_modules():
        module.register_forward_hook(hook_for(path))
    with torch.no_grad():
        model(torch.tensor([[84, 104, 101, 32, 102]]))
    return given


def test_types_are_those_of_a_forward_in_the_types_of_the_checkpoint(ran):
    facts = Facts.of("k3-random")
    seen = 0
    for (block, point), dtype in types(facts).items():
        for path in facts.instances(facts.blocks[block]):
            if (real := ran.get(resolve(path, point))) is not None:
                assert TYPES[real] == dtype, (block, point)
                seen += 1
    assert seen > 100


def test_the_types_that_arrows_carry():
    facts = Facts.of("kimi-k3")
    carried = {(e.source, e.target): dtypes(facts, e) for e in facts.view.edges if e.kind != "store"}
    assert carried["tokens", "token_embedding"] == "int64"
    assert carried["attn_norm", "kda_projections"] == "bf16"
    assert carried["kda_decay", "kda_delta_rule"] == "f32"
    assert carried["moe_router", "moe_experts"] == "int64"
    assert carried["moe_router", "moe_combine"] == "f32"


@pytest.mark.parametrize("model", ["kimi-k3", "k3-tiny", "kimi-linear-48b"])
@pytest.mark.parametrize("layer", [None, 0, 3])
def test_every_arrow_with_a_shape_names_its_type_when_asked(model, layer):
    plain = scene(model, opened=parse_open("all"), layer=layer)
    typed = scene(model, opened=parse_open("all"), layer=layer, step=TYPED)
    by_id = {edge["id"]: edge for edge in typed["edges"]}
    assert by_id.keys() == {edge["id"] for edge in plain["edges"]}
    for before in plain["edges"]:
        shape, typed_shape = (" ".join(edge["label"]) for edge in (before, by_id[before["id"]]))
        if shape:  # of lines that part, only the first says what all of them carry
            assert re.sub(r" (bf16|f32|int64)(, (bf16|f32))*", "", typed_shape) == shape
            assert typed_shape != shape


def test_the_sum_that_the_layers_before_hand_on_has_the_type_of_a_sum():
    facts = Facts.of("kimi-k3")
    edge = next(e for e in stack.view_of(facts, 5).edges if e.source == stack.EARLIER and e.kind == "sum")
    assert dtypes(facts, edge) == types(facts)["ffn_sum", next(iter(facts.blocks["ffn_sum"].out))].lower()
    assert graph.template("kimi-k3") is graph.template("kimi-k3", step=Step())

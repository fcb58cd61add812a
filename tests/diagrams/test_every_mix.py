"""Any mix of layers is described, counted and drawn: what a model lacks is left out, and nothing else."""

import json

import pytest

from k3scope.diagrams.cost import breakdown, roofline
from k3scope.diagrams.cost.compare_models import compare
from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.check import problems
from k3scope.diagrams.scene import search
from k3scope.diagrams.scene.graph import scene
from k3scope.diagrams.scene.tour_stops import stops
from k3scope.diagrams.spec import block_spec
from k3scope.model.official_config_write import document
from tests.helpers.mixes import MIXES

OLDER = [pytest.param(name, marks=pytest.mark.slow) for name in MIXES if name.startswith("linear-")]


@pytest.fixture(scope="module", params=[*(n for n in MIXES if not n.startswith("linear-")), *OLDER])
def facts(request, tmp_path_factory):
    """Of its config.json, as a stranger would bring it."""
    path = tmp_path_factory.mktemp("mix") / f"{request.param}.json"
    path.write_text(json.dumps(document(MIXES[request.param])))
    return Facts.of(str(path))


def test_every_block_matches_the_live_model(facts):
    assert problems(facts) == []


def test_the_ledger_adds_up_to_the_parameters_of_the_model(facts):
    assert sum(row.total for row in facts.rows()) == facts.totals.total
    assert all(row.count and row.total for row in facts.rows())


def test_the_drawing_has_every_block_and_no_end_in_the_air(facts):
    for layer in (None, *range(facts.config.layers)):
        drawn = scene(facts, opened=tuple(block_spec.groups()), layer=layer)
        ids = {node["id"] for node in drawn["nodes"]}
        assert {end for edge in drawn["edges"] for end in (edge["source"], edge["target"])} <= ids
        if layer is None:
            assert ids >= set(facts.blocks) - {"kimi_k3"}
            touched = {end for edge in drawn["edges"] for end in (edge["source"], edge["target"])}
            leaves = {n["id"] for n in drawn["nodes"] if not n["group"]}
            assert leaves <= touched


def test_every_block_opens_in_every_layer(facts):
    for block in facts.blocks:
        for layer in (None, *facts.block(block).layers):
            shown = facts.block(block, layer)
            assert shown.count
            assert shown.total >= 0


def test_cost_comparison_search_and_tour_speak_of_what_is_there(facts):
    for phase in ("prefill", "decode"):
        cost = roofline.cost(facts, roofline.Point(phase=phase))
        assert cost.flops > 0
        assert cost.weight_bytes > 0
        point = roofline.Point(phase=phase)
        parts = breakdown.cost_parts(facts, point)
        assert sum(part.flops for part in parts) == cost.flops
        assert sum(part.weight_bytes for part in parts) == pytest.approx(cost.weight_bytes)
        assert breakdown.readings(facts, point, roofline.DEVICES[0], 8)
    assert compare(facts, Facts.of("kimi-k3")).blocks
    assert all(stop.select in facts.blocks for stop in stops(facts))
    assert [layer.title for layer in stack.layers(facts.config)]
    for text in ("kda", "mla", "router", "norm"):
        search.search(facts, text)

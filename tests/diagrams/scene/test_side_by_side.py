"""Two models in one layout: the same places, the words and arrows of each, and what differs."""

from collections import Counter

import pytest

from k3scope.diagrams.cost.compare_models import facts_of
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import graph
from k3scope.diagrams.scene.side_by_side import block_marks, pair
from k3scope.diagrams.spec import block_spec
from k3scope.model.presets import KIMI_LINEAR

K3, LINEAR = Facts.of("kimi-k3"), Facts.of("kimi-linear-48b")
OPENED = [(), ("decoder_layer",), ("decoder_layer", "kda", "mla", "latent_moe", "vision", "vision_block")]


def boxes(scene: dict) -> dict[str, dict]:
    return {n["id"]: n for n in scene["nodes"]}


def arrows(scene: dict) -> set[tuple[str, str]]:
    return {tuple(m) for e in scene["edges"] for m in e["members"]}


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("facts", [K3, LINEAR], ids=["k3", "linear"])
def test_each_side_has_exactly_the_boxes_and_arrows_of_its_model(opened, facts):
    both = pair(K3, LINEAR, opened)
    side = both.left if facts is K3 else both.right
    alone = graph.scene(facts, opened=opened)
    there = {i: n for i, n in boxes(side).items() if n["level"] != "absent"}
    assert there.keys() == boxes(alone).keys()
    for name, node in boxes(alone).items():
        assert [there[name][k] for k in ("title", "sub", "badge", "open")] == [
            node[k] for k in ("title", "sub", "badge", "open")
        ]
    assert arrows(side) == arrows(alone)


@pytest.mark.parametrize("opened", OPENED)
def test_what_both_have_stands_at_the_same_place(opened):
    both = pair(K3, LINEAR, opened)
    left, right = boxes(both.left), boxes(both.right)
    assert (both.left["width"], both.left["height"]) == (both.right["width"], both.right["height"])
    for name in left.keys() & right.keys():
        assert [left[name][k] for k in "xywh"] == [right[name][k] for k in "xywh"]
    assert any(n["level"] == "absent" for n in right.values())
    assert not any(n["level"] == "absent" for n in left.values())


def test_what_differs_is_told_apart():
    marks = block_marks(K3, LINEAR)
    assert {b for b, mark in marks.items() if mark == "left"} == K3.blocks.keys() - LINEAR.blocks.keys()
    assert not [b for b, mark in marks.items() if mark in ("right", "same")]
    assert marks["kda_decay"] == marks["mla_q_up"] == marks["dense_mlp"] == "other"
    assert marks["kda_short_conv"] == marks["final_norm"] == "size"


def test_the_small_model_has_the_topology_of_the_release():
    assert Counter(block_marks(K3, Facts.of("k3-tiny")).values()).keys() == {"size"}


def test_a_model_beside_itself_has_no_difference():
    again = facts_of(KIMI_LINEAR, "again")
    assert set(block_marks(LINEAR, again).values()) == {"same"}
    assert {n["mark"] for n in pair(LINEAR, again).left["nodes"]} <= {"same", ""}


def test_every_block_has_one_mark_and_boxes_say_it():
    both = pair(LINEAR, K3, OPENED[-1])
    drawn = [n.id for n in block_spec.view("model").nodes if not n.io]
    assert both.marks.keys() == set(drawn)
    assert boxes(both.right)["attn_mix"]["mark"] == "only"
    assert boxes(both.right)["attn_mix"]["summary"].startswith("only in this model")
    assert boxes(both.left)["attn_mix"]["row"] == "not in this model"

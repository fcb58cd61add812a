"""The page in two halves: what is text before there is a session, and what joins it."""

import json
import re

from k3scope.app.page.architecture import diagram
from k3scope.app.page.architecture.header import header
from k3scope.app.page.kit.shell import AS_RENDERED, Shell
from k3scope.app.page.page import link_targets, opening_html, visit


def initial_values(search: str) -> dict:
    return json.loads(re.search(r'id="first">(.*?)</script>', opening_html(search), re.S)[1])


def test_the_opening_brings_the_drawing_of_the_link():
    shown = initial_values("?layer=42&select=kda_decay")
    assert shown["selected"] == "kda_decay"
    assert shown["layer_texts"]["decoder_layer"]["title"] == "Layer 42 · KDA + MoE"
    assert {"kda_decay", "moe_router"} <= {node["id"] for node in shown["scene"]["nodes"]}


def test_the_first_scene_is_small_and_the_opening_loads_no_script():
    assert len(json.dumps(initial_values("")["scene"], ensure_ascii=False, separators=(",", ":"))) < 60_000
    assert "<script src" not in opening_html("")


def test_a_scene_names_the_scene_that_each_toggle_leads_to():
    for search, group in (("", "mla"), ("", "kda"), ("?layer=43", "mla")):
        state, _ = visit(search)
        drawn = diagram.diagram(state)
        key = initial_values(search)["scene"]["next"][group]
        drawn._on_prefetch(group)
        assert json.loads(drawn.prefetched)["key"] == key
        drawn._toggle(group, 1)
        scene = json.loads(drawn.scene)
        assert scene["key"] == key
        assert scene["toggles"] == 1
        assert scene["nodes"] == json.loads(drawn.prefetched)["nodes"]


def test_what_the_page_shows_already_is_not_sent_again():
    state, _ = visit("")
    shell = Shell(state, link_targets())
    header(state, shell)
    facts = shell.facts
    shell.mark_rendered()
    assert shell.facts == AS_RENDERED
    shell.fill(facts=facts)
    assert shell.facts == AS_RENDERED
    shell.fill(facts="")
    assert shell.facts == ""

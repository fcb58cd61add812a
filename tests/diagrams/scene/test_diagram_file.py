"""A drawing as a file: in Python, on the command line and in a notebook it is one."""

import json
import xml.etree.ElementTree as ET

import pytest

import k3scope
from k3scope.app.cli import main
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import graph
from k3scope.diagrams.scene.diagram_file import DiagramFile, diagram, parse_open

DEEP = {"open": "decoder_layer,mla", "layer": 43, "select": "mla", "phase": "decode", "B": 2, "T": 99,
        "types": True, "theme": "dark"}  # fmt: skip


def options(given: dict) -> list[str]:
    """The options of a call as those of the command."""
    return [
        word
        for name, value in given.items()
        for word in (f"--{name}", *([] if value is True else [str(value)]))
    ]


@pytest.mark.parametrize("form", ["svg", "png", "json"])
@pytest.mark.parametrize(
    "given", [{}, DEEP, {"open": ""}, {"open": "all"}], ids=["default", "deep", "closed", "all"]
)
def test_a_file_has_the_bytes_of_the_command(tmp_path, form, given):
    by_command = tmp_path / f"command.{form}"
    assert main(["export", *options(given), "--zoom", "0.5", "--out", str(by_command)]) == 0
    saved = diagram(**given).save(tmp_path / f"saved.{form}", zoom=0.5)
    assert saved.read_bytes() == by_command.read_bytes()


def test_it_is_drawn_as_on_the_page_unless_told_otherwise():
    assert diagram().scene() == graph.scene("kimi-k3")
    assert diagram("k3-tiny").open == tuple(sorted(graph.OPEN))
    assert (diagram("k3-tiny", theme="dark").dark, diagram().step) == (True, DiagramFile().step)


def test_a_notebook_shows_the_svg():
    drawn = diagram("k3-tiny", select="kda")
    assert ET.fromstring(drawn._repr_svg_()).tag.endswith("svg")
    assert drawn._repr_svg_() == drawn.svg()
    assert json.loads(drawn.json())["select"] == "kda"
    assert drawn.png(0.5).startswith(b"\x89PNG")


def test_the_front_door_hands_it_out():
    assert k3scope.diagram is diagram


def test_groups_are_names_in_a_text_or_in_a_list():
    assert parse_open("mla,kda") == parse_open(["kda", "mla"]) == ("kda", "mla")
    assert parse_open("") == parse_open(()) == ()
    assert set(parse_open("all")) < set(parse_open("everything"))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"model": "kimi-k33"}, "did you mean 'kimi-k3'"),
        ({"view": "modle"}, "no view 'modle'; did you mean 'model'"),
        ({"open": ["decoder_layr"]}, "open: 'decoder_layr' is no group; did you mean 'decoder_layer'"),
        ({"select": "moe_ruter"}, "select: 'moe_ruter' is no block of kimi-k3; did you mean 'moe_router'"),
        ({"layer": 93}, "no layer 93; expected 0 to 92"),
        ({"theme": "drak"}, "theme: there is no 'drak'; did you mean 'dark'"),
        ({"phase": "train"}, "expected prefill or decode"),
        ({"T": 0}, "expected 1 to"),
    ],
)
def test_a_wrong_name_ends_in_a_sentence_with_the_nearest_one(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        diagram(**wrong)


def test_what_cannot_be_written_is_refused(tmp_path):
    drawn = diagram("k3-tiny")
    with pytest.raises(ValueError, match=r"'\.gif' is no format of a diagram; expected \.svg, \.png, \.json"):
        drawn.save(tmp_path / "k3.gif")
    with pytest.raises(ValueError, match=r"cannot write .*No such file"):
        drawn.save(tmp_path / "none" / "k3.svg")
    with pytest.raises(ValueError, match=r"expected 0\.1 to 8"):
        drawn.png(99)
    with pytest.raises(ValueError, match="'svgz' is no format; did you mean 'svg'"):
        drawn.encode("svgz")


def test_the_same_options_give_the_same_bytes_in_any_order_of_names():
    one, two = diagram("k3-tiny", open=["mla_q_up", "mla"]), diagram("k3-tiny", open=["mla", "mla_q_up"])
    assert one.svg() == two.svg()


def test_what_opened_blocks_hold_comes_in_the_order_of_the_view():
    facts = Facts.of("k3-tiny")
    drawn = graph.graph(facts, facts.view, frozenset(parse_open("everything")))
    opened = list(dict.fromkeys(drawn.nodes[name]["parent"] for name in drawn if "/" in name))
    assert len(opened) > 20
    assert opened == [node.id for node in facts.view.nodes if node.id in set(opened)]

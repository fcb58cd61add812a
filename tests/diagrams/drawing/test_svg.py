"""The SVG file: well formed, complete, all text as text."""

from xml.etree import ElementTree

import networkx as nx
import pytest

from k3scope.diagrams.drawing.layout import layout
from k3scope.diagrams.drawing.svg import colours, to_svg

NS = "{http://www.w3.org/2000/svg}"


def scene(title: str = "Router", opened: bool = True) -> dict:
    graph = nx.DiGraph()
    common = {
        "mono": "",
        "badge": "92 of 93 layers",
        "summary": "Says <what> it does",
        "params": 5,
        "count": 1,
    }
    for order, (name, parent, group) in enumerate((("a", None, False), ("g", None, True), ("b", "g", False))):
        graph.add_node(
            name, title=f"{title} {name}", sub="896 & more", kind="ffn", parent=parent, group=group,
            open=opened, io=name == "a", order=order, variant=None, **common,
        )  # fmt: skip
    graph.add_edge("a", "b", kind="flow", label=["[B, T, d]", "[1, 17, 7168]"], loop=False, text="x < y")
    return layout(graph)


def texts(svg: str) -> list[str]:
    return [t.text for t in ElementTree.fromstring(svg).iter(f"{NS}text")]


@pytest.mark.parametrize("dark", [False, True])
def test_every_title_and_label_is_text(dark):
    shown = texts(to_svg(scene(), dark))
    assert {"Router a", "Router g", "Router b", "[B, T, d]", "[1, 17, 7168]", "x < y"} <= set(shown)
    assert "92 of 93 layers" in shown


def test_angle_brackets_and_quotes_in_titles_are_escaped():
    assert 'a <b> & "c" a' in texts(to_svg(scene('a <b> & "c"')))


def test_a_closed_group_is_one_box():
    assert {"Router g", "Router b"} & set(texts(to_svg(scene(opened=False)))) == {"Router g"}


def test_the_selected_box_and_its_inputs_are_coloured():
    light = colours(dark=False)
    plain, chosen = to_svg(scene()), to_svg(scene(), selected="b")
    assert light["pick"] not in plain
    assert light["in"] not in plain
    assert light["pick"] in chosen
    assert light["in"] in chosen
    assert light["out"] in to_svg(scene(), selected="a")
    assert light["in"] in to_svg(scene(), selected="g")  # what goes to a box inside an open group


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", ["structure", "attention", "ffn", "norm", "embed", "aux"])
def test_text_is_readable_on_every_kind_of_box(dark, kind):
    c = colours(dark)
    for words, ground in (
        ("fg", f"{kind}-f"), ("muted", f"{kind}-f"), ("muted", f"{kind}-g"), ("muted", "stage"),
        (kind, f"{kind}-g"), (kind, f"{kind}-f"), ("norm", "structure-g"), ("norm", "stage"),
        ("aux", "structure-g"), ("tip-fg", "tip"),
    ):  # fmt: skip
        assert contrast(c[words], c[ground]) >= 4.5, (words, ground)
    for line in ("line", "in", "out", "pick"):
        assert contrast(c[line], c["stage"]) >= 3, line


def test_both_themes_set_the_same_variables():
    assert colours(False).keys() == colours(True).keys()

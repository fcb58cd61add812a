"""The point of the Cost view in the link, and what the two views show, without a browser."""

import json
import re
import time

import pytest

from k3scope.app.cli import main
from k3scope.app.link import cost_point, query
from k3scope.app.link.fields import DEFAULTS, LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.sheets import comparison, cost_sheet
from k3scope.app.page.sheets.compare_sheet import CompareView
from k3scope.app.page.sheets.comparison import Other
from k3scope.app.page.sheets.cost_sheet import CostView
from k3scope.app.page.sheets.curves import CONTEXTS, Curve, chart, format_context
from k3scope.assets import CONFIGS
from k3scope.diagrams.facts.block_facts import Facts

TARGETS = LinkTargets(models=("kimi-k3", "k3-random"), compared=("kimi-k3", "kimi-linear-48b"))
OFFICIAL = (CONFIGS / "kimi-k3-0.40b.json").read_text()


def test_the_point_survives_the_link():
    text = "1048576,64,prefill,fp8,fp32,b200,8"
    link = query.parse(query.format(DEFAULTS | {"view": "cost", "cost_point": text}), TARGETS)
    assert link.values["cost_point"] == text
    assert link.problems == ()
    assert cost_point.parse(text).device.name == "B200"


def test_the_default_point_is_not_in_the_link():
    assert query.format(DEFAULTS | {"view": "cost"}) == "?view=cost&v=1"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected 7 parts"),
        ("0,1,decode,mxfp4,bf16,h200,16", "context is a whole number from 1 to 1,048,576"),
        ("1e3,1,decode,mxfp4,bf16,h200,16", "context is a whole number"),
        ("1,99999,decode,mxfp4,bf16,h200,16", "batch is a whole number from 1 to 4,096"),
        ("1,1,train,mxfp4,bf16,h200,16", "phase is none of decode, prefill"),
        ("1,1,decode,int3,bf16,h200,16", "experts is none of mxfp4, nvfp4, fp8, bf16"),
        ("1,1,decode,mxfp4,bf16,abacus,16", "device is none of"),
        ("1,1,decode,mxfp4,bf16,h200,0", "count is a whole number from 1 to 1,024"),
    ],
)
def test_a_point_that_cannot_be_read_is_said(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        cost_point.parse(text)
    link = query.parse(f"?at={text}", TARGETS)
    assert link.values["cost_point"] == cost_point.DEFAULT
    assert sentence in link.problems[0]


def test_the_second_model_may_be_one_that_is_not_drawn():
    assert query.parse("?compare=kimi-linear-48b", TARGETS).values["compare"] == "kimi-linear-48b"
    assert "no model" in query.parse("?compare=../../etc/passwd", TARGETS).problems[0]


@pytest.mark.parametrize("model", ["kimi-k3", "k3-random"])
@pytest.mark.parametrize(
    "text", [cost_point.DEFAULT, "1,1,prefill,bf16,fp32,h100,1", "1048576,4096,decode,fp8,bf16,mi300x,1024"]
)
def test_every_point_can_be_shown(model, text):
    shown = cost_sheet.results(model, text)
    assert shown.count("<polyline") == 5 if "decode" in text else 4
    assert "nan" not in shown
    assert not re.search(r">\s*None\s*<", shown)


def test_a_moved_slider_is_answered_quickly():
    cost_sheet.results("kimi-k3", cost_point.DEFAULT)
    before = time.perf_counter()
    for context in range(1000, 1010):
        cost_sheet.results("kimi-k3", f"{context},1,decode,mxfp4,bf16,h200,16")
    assert (time.perf_counter() - before) / 10 < 0.5  # far below on a quiet machine; a guard, not a budget


def test_the_cost_view_computes_only_when_it_is_looked_at():
    state = State()
    view = CostView(state)
    assert view.results == ""
    state.view = "cost"
    assert "16,253 tokens" in view.results


def test_controls_reach_the_state_and_wrong_ones_are_said():
    state = State(view="cost")
    view = CostView(state)
    view._handle_msg({"point": "65536,8,decode,mxfp4,fp32,b200,8"})
    assert state.cost_point.startswith("65536,8")
    assert "16,805 tokens" in view.results
    view._handle_msg({"point": "0,8,decode,mxfp4,fp32,b200,8"})
    assert "from 1 to" in view.problem
    assert state.cost_point.startswith("65536,8")
    for odd in (None, 3, {"point": 3}, {}):
        view._handle_msg(odd)


def test_curves_stay_inside_their_picture():
    curves = [Curve("a", "fg", [float(n) for n in CONTEXTS]), Curve("none", "fg", [0.0] * 21)]
    drawn = chart("t", curves, 256, str)
    points = re.search(r'points="([^"]+)"', drawn)[1].split()
    assert len(points) == 21
    assert drawn.count("<polyline") == 1
    assert all(0 <= float(x) <= 480 and 0 <= float(y) <= 280 for x, y in (p.split(",") for p in points))


def test_contexts_are_written_as_people_write_them():
    assert [format_context(n) for n in (1, 256, 4096, 2**20)] == ["1", "256", "4K", "1M"]


def test_kimi_linear_stands_beside_k3():
    state = State(view="compare")
    view = CompareView(state)
    assert view.other == "kimi-linear-48b"
    for text in ("2,779,931,837,184", "49,122,681,728", "16,253", "only Kimi K3", "fields are equal"):
        assert text in view.results


def test_a_file_is_compared_and_stays_out_of_the_link():
    state = State(view="compare")
    view = CompareView(state)
    view._handle_msg({"config": OFFICIAL, "name": "<b>mine</b>.json"})
    assert view.problem == ""
    assert "&lt;b&gt;mine" in view.results
    assert f"{Facts.of('kimi-k3-0.40b').totals.total:,}" in view.results
    assert state.compare == ""
    view._handle_msg({"with": "k3-random"})
    assert "mine" not in view.results
    assert state.compare == "k3-random"


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"text_config": []}), "x" * 70_000])
def test_a_broken_file_leaves_what_was_there_and_is_said(text):
    view = CompareView(State(view="compare"))
    before = view.results
    view._handle_msg({"config": text, "name": "config.json"})
    assert view.problem
    assert view.results == before


@pytest.mark.parametrize("odd", [{"toggle": ["kda"]}, {"toggle": {}}, {"select": ["kda"]}, {"with": []}, []])
def test_a_message_of_another_kind_changes_nothing(odd):
    state = State(view="compare")
    view, before = CompareView(state), dict(state.param.values())
    view._handle_msg(odd)
    assert dict(state.param.values()) == before


def test_a_model_beside_itself_has_no_difference():
    assert "No field differs" in comparison.text("k3-random", Other("k3-random"))


def test_the_command_compares(capsys):
    assert main(["compare", "kimi-k3", "kimi-linear-48b", "--format", "json"]) == 0
    comparison = json.loads(capsys.readouterr().out)
    assert sum(b["b"] or 0 for b in comparison["blocks"]) == 49_122_681_728
    assert main(["compare", "kimi-k3", "kimi-linear-48b"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"Cache passes state at, tokens +16,253 +5,384", out)
    assert main(["compare", "kimi-k3", "kimi-k4"]) == 2

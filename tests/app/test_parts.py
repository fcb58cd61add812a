"""What the parts of the page say, without a browser."""

import re

import pytest

from app import html, theme
from app.page import known, page, visit
from app.parts import inspector, ledger, stage
from diagrams import spec
from diagrams.facts import Facts

MODELS = known().models
BLOCKS = ["", *spec.blocks()]
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("block", BLOCKS)
def test_every_section_of_every_block_can_be_read(model, block):
    assert "<code>" in inspector.code(model, block)
    for make in (inspector.subject, inspector.overview, inspector.parameters):
        text = make(model, block)
        assert len(text) > 40
        assert not re.search(r">\s*None\s*<", text)


@pytest.mark.parametrize("model", MODELS)
def test_the_ledger_of_every_model_sums_to_its_total(model):
    shown = ledger.table(model)
    assert f"{Facts.of(model).totals.total:,}</td>" in shown
    assert re.search(r'data-testid="ledger-difference">0<', shown)


def test_the_strip_has_one_cell_per_layer_in_blocks_of_attnres():
    shown = stage.cells("kimi-k3")
    assert shown.count("<button") == 93
    assert shown.count('class="block"') == 8
    assert shown.count('class="mla"') == 24
    assert 'aria-label="layer 0, KDA, dense FFN"' in shown


@pytest.mark.parametrize("field", ["select", "model", "open"])
def test_what_a_link_says_is_text_on_the_page(field):
    state, _ = visit(f"?{field}={HOSTILE}")
    shown = html.render("problems.html", problems=state.problems)
    assert "<img" not in shown
    assert "&lt;img" in shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2_779_484_478_208, "2.78T"),
        (104_189_614_848, "104.2B"),
        (443_740_416, "443.7M"),
        (7168, "7,168"),
        (0, "0"),
    ],
)
def test_counts_are_short_enough_for_the_header(value, text):
    assert html.short(value) == text


def test_a_share_that_is_too_small_is_not_shown_as_none():
    assert html.percent(1, 10**12) == "< 0.001%"
    assert html.percent(0, 10) == "0.00%"


def test_both_themes_name_the_same_colours():
    light, dark = theme.colours(False), theme.colours(True)
    assert light.keys() == dark.keys()
    assert {"bg", "fg", "edge", "attention", "warn"} <= light.keys()
    assert light["bg"] != dark["bg"]


def test_the_page_can_be_built_with_anything_in_its_places():
    import panel as pn

    state, address = visit("?model=k3-random&select=moe_router")
    built = page(state, address, dock=pn.Column(), live=pn.Column(), lab=pn.Column())
    assert built.server_doc().title

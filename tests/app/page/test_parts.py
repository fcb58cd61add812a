"""What the parts of the page say, without a browser."""

import re

import pytest

from k3scope.app.page.architecture import controls, diagram, stage
from k3scope.app.page.architecture.layer_strip import MeasuredLayers
from k3scope.app.page.inspector import inspector
from k3scope.app.page.kit import templates, theme
from k3scope.app.page.page import link_targets, session_template, visit
from k3scope.app.page.sheets import ledger_sheet
from k3scope.diagrams.facts import provenance, stack
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.model.measure.layer_rows import LayerRow

MODELS = link_targets().models
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize(("model", "block"), [(m, b) for m in MODELS for b in ("", *Facts.of(m).blocks)])
def test_every_section_of_every_block_can_be_read(model, block):
    assert "<code>" in inspector.code(model, block)
    for make in (inspector.subject, inspector.overview, inspector.parameters):
        text = make(model, block)
        assert len(text) > 40
        assert not re.search(r">\s*None\s*<", text)


@pytest.mark.parametrize("model", MODELS)
def test_the_ledger_of_every_model_sums_to_its_total(model):
    shown = ledger_sheet.table(model)
    assert f"{Facts.of(model).totals.total:,}</td>" in shown
    assert re.search(r'data-testid="ledger-difference">0<', shown)


def test_the_strip_has_one_cell_per_layer_in_blocks_of_attnres():
    shown = stage.layer_cells("kimi-k3")
    assert shown.count("<button") == 93
    assert shown.count('class="block') == 8
    assert shown.count("partial") == 1
    assert shown.count('class="mla"') == 24
    assert 'aria-label="layer 0, KDA + dense FFN, AttnRes block 1 of 8"' in shown
    assert 'aria-label="layer 92, MLA + MoE, AttnRes block 8 of 8"' in shown


def test_every_number_of_the_ledger_says_where_it_comes_from():
    shown = ledger_sheet.table("kimi-k3").replace("<wbr>", "")
    rows = Facts.of("kimi-k3").rows()
    assert shown.count('title="Where does this come from?"') == 3 * len(rows)
    assert all(f"= {row.filled} = {row.per_instance:,}<" in shown for row in rows)
    assert "model.layers.L.self_attn.A_log" in shown
    assert "85,085,650,944 bytes of them are MXFP4 scales" in shown


def test_the_facts_strip_names_the_state_of_the_release_that_was_read():
    text = provenance.snapshot(Facts.of("kimi-k3")).text
    assert "f831ab668142" in text
    assert "July 2026 (arxiv.org/abs/2607.24653)" in text
    assert provenance.snapshot(Facts.of("k3-tiny")) is None


MEASURED = MeasuredLayers(
    "k3-tiny",
    (LayerRow("sum", "RMS", "", {0: 1.0, 8: 4.0}), LayerRow("memory", "half-life", "tokens", {0: 5})),
)


def test_the_strip_shows_a_run_beside_the_layers_of_its_own_model():
    shown = stage.layer_cells("k3-tiny", MEASURED)
    assert shown.count("<button") == 9
    assert 'aria-label="layer 0, KDA + dense FFN, AttnRes block 1 of 3; sum 1; memory 5 tokens"' in shown
    assert shown.count("--v: 0.2500") == 1
    assert shown.count('class="none"') == 7 + 8  # layers without a value have no bar


def test_the_strip_of_another_model_names_whose_run_there_is_and_shows_none_of_its_values():
    shown = stage.layer_cells("kimi-k3", MEASURED)
    assert shown.count("<button") == 93
    assert "--v" not in shown
    assert "The run on show is of k3-tiny" in shown
    assert 'data-go="model=k3-tiny"' in shown


def test_the_inspector_names_the_tensors_of_the_layer_on_show():
    shown = inspector.parameters("kimi-k3", "kda_decay", 42).replace("<wbr>", "")
    assert "layers.42.self_attn.A_log" in shown
    assert "layers.L." not in shown
    assert "Layer 42 · KDA + MoE" in inspector.subject("kimi-k3", "", 42)
    assert "30,228,720,256" in inspector.subject("kimi-k3", "", 42)


def test_a_block_that_the_layer_lacks_is_shown_for_the_whole_model():
    assert inspector.parameters("kimi-k3", "mla_q_up", 42) == inspector.parameters("kimi-k3", "mla_q_up")


def test_the_breadcrumb_goes_through_the_layer():
    state, _ = visit("?layer=42&select=kda_decay")
    path = [(text, is_layer) for text, _, is_layer in stage._crumbs(state)]
    assert path == [
        ("Kimi K3", False),
        ("layer 42", True),
        ("Kimi Delta Attention", False),
        ("Decay gate", False),
    ]


def test_the_next_layer_keeps_the_selection_or_what_stands_in_its_place():
    facts = Facts.of("kimi-k3")
    assert stack.nearest_visible(facts, "kda_decay", 43) == "mla"
    assert stack.nearest_visible(facts, "attn_norm", 43) == "attn_norm"
    assert stack.nearest_visible(facts, "moe_router", 0) == "dense_mlp"
    assert stack.nearest_visible(facts, "lm_head", 43) == "lm_head"


def test_layers_that_look_alike_send_the_same_scene_with_other_texts():
    state, _ = visit("?layer=41")
    drawn = diagram.diagram(state)
    scene = drawn.scene
    state.layer = 42
    assert drawn.scene is scene
    assert drawn.layer_texts["decoder_layer"]["title"] == "Layer 42 · KDA + MoE"
    state.layer = 43
    assert drawn.scene is not scene


def test_closing_the_attention_of_a_layer_closes_that_of_every_kind():
    state, _ = visit("?layer=43")
    diagram.diagram(state)._on_toggle("mla")
    assert state.open == ["decoder_layer", "latent_moe"]
    diagram.diagram(state)._on_toggle("mla")
    assert "mla" in state.open


def test_a_camera_that_makes_no_sense_stays_out_of_the_link():
    state, _ = visit("")
    drawn = diagram.diagram(state)
    drawn.camera = "<img>"
    assert state.camera == ""
    drawn.camera = "10,20,0.5"
    assert state.camera == "10,20,0.5"


def test_a_search_hit_opens_its_groups_and_leaves_a_layer_that_lacks_it():
    state, _ = visit("?layer=42&view=ledger&open=")
    control = controls.controls(state, link_targets())
    control._handle_msg({"query": "q_b_proj"})
    assert control.results["hits"][0]["block"] == "mla_q_up"
    control._handle_msg({"choose": "mla_q_up"})
    assert (state.view, state.select, state.layer) == ("model", "mla_q_up", None)
    assert {"decoder_layer", "mla"} <= set(state.open)
    control._handle_msg({"choose": "no such block"})
    assert state.select == "mla_q_up"


def test_a_size_that_is_refused_is_said_and_the_field_goes_back():
    state, _ = visit("")
    control = controls.controls(state, link_targets())
    before = control.step
    control._handle_msg({"go": "B=0"})
    assert state.B == 1
    assert "from 1 to 1,024" in state.problems[0]
    assert control.step != before
    control._handle_msg({"go": "B=4"})
    assert (state.B, state.problems) == (4, [])


@pytest.mark.parametrize("field", ["select", "model", "open"])
def test_what_a_link_says_is_text_on_the_page(field):
    state, _ = visit(f"?{field}={HOSTILE}")
    shown = templates.render("problems.html", problems=state.problems)
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
    assert templates.short(value) == text


def test_a_share_that_is_too_small_is_not_shown_as_none():
    assert templates.percent(1, 10**12) == "< 0.001%"
    assert templates.percent(0, 10) == "0.00%"


def test_both_themes_name_the_same_colours():
    light, dark = theme.colours(False), theme.colours(True)
    assert light.keys() == dark.keys()
    assert {"bg", "fg", "edge", "attention", "warn"} <= light.keys()
    assert light["bg"] != dark["bg"]


def test_the_page_can_be_built_with_any_viewable_in_its_slots():
    import panel as pn

    state, address = visit("?model=k3-random&select=moe_router")
    built = session_template(state, address, dock=pn.Column(), live=pn.Column(), lab=pn.Column())
    assert built.server_doc().title

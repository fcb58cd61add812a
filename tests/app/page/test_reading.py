"""Depths, evidence, letters, provenance and the tour as the page has them, without a browser."""

import re

import pytest

from k3scope.app.link import fields, query
from k3scope.app.page.architecture.tour_card import start_query, tour
from k3scope.app.page.inspector import inspector
from k3scope.app.page.kit import markdown
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.page import link_targets, visit
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.derivation import texts
from k3scope.diagrams.scene.tour_stops import stop_query, stops
from k3scope.diagrams.spec import block_spec


def test_formulas_keep_their_latex_and_everything_else_is_text():
    html = markdown.with_formulas("**a** $x_1 < y$ <b>\n\n$$\\sum_i x_i$$\n\nend_of_it")
    assert '<span data-tex="x_1 &lt; y">' in html
    assert '<div class="equation" data-tex="\\sum_i x_i">' in html
    assert "<strong>a</strong>" in html
    assert "<b>" not in html
    assert "<p><div" not in html


@pytest.mark.parametrize("block", sorted(texts()))
def test_the_depths_of_a_block(block):
    line, engineer, derived = (
        inspector.overview("kimi-k3", block, depth=depth) for depth in fields.DETAIL_LEVELS
    )
    assert "<h3>Notes" not in line
    assert "<h3>Evidence" not in line
    assert "<h3>Notes" in engineer
    assert "<h3>Evidence" in engineer
    assert 'class="prose derivation"' in derived
    assert "<h3>Notes" not in derived


def test_a_block_with_nothing_to_derive_says_so_and_shows_its_notes():
    shown = inspector.overview("kimi-k3", "lm_head", depth="derivation")
    assert 'disabled title="Nothing to derive here"' in shown
    assert "<h3>Notes" in shown


def test_evidence_says_how_sure_in_words_and_where_others_differ():
    shown = inspector.overview("kimi-k3", "mla_shared_key")
    assert "read in the official file and checked a second, independent way" in shown
    assert "f831ab668142" in shown
    assert "Other pages say" in shown
    assert re.search(r"The release does</span> 64 un-rotated channels", shown)
    assert "#L396" in shown


def test_letters_lead_to_their_box_their_code_and_after_a_run_their_values():
    shown = inspector.overview("kimi-k3", "kda_delta_rule")
    assert 'data-lit="kda_decay kda decoder_layer"' in shown
    assert 'data-lines="decay"' in shown or "data-lines=" in shown
    assert "tab=live" not in shown
    assert "select=kda_decay&tab=live" in inspector.overview("kimi-k3", "kda_delta_rule", ran=True)


def test_lines_of_code_carry_the_names_of_letters():
    shown = inspector.code("kimi-k3", "kda_decay")
    assert re.search(r'data-names="[^"]*\bf_a_proj\b', shown)
    assert 'class="letters"' in shown


def test_the_whole_page_has_facts_with_origins_highlights_and_how_to_read():
    shown = inspector.overview("kimi-k3", "")
    for text in ("27,648 bytes", "24 × (512 + 64) × 2", "f831ab668142", "Where to look first",
                 "Reading this diagram", "Take the tour", "model.safetensors.index.json"):  # fmt: skip
        assert text in shown, text


@pytest.mark.parametrize("model", ["kimi-k3", "k3-random"])
def test_every_stop_is_a_link_that_can_be_read(model):
    for number, stop in enumerate(stops(Facts.of(model)), 1):
        read = query.parse(f"model={model}&" + stop_query(stop, number), link_targets())
        assert not read.problems
        assert read.values["tour"] == number
        assert read.values["select"] == stop.select
        assert read.values["open"] == stop.open


def test_a_link_with_a_stop_alone_brings_its_place():
    state, _ = visit("?tour=9")
    shell = Shell(state, link_targets())
    tour(state, shell, link_targets())
    assert (state.select, state.layer, state.open) == ("mla", 3, ["decoder_layer", "mla"])
    assert "stop 9 of 16" in shell.tour
    state.tour = None
    assert shell.tour == ""


def test_a_link_with_a_stop_and_a_block_keeps_the_block():
    state, _ = visit("?tour=9&select=lm_head")
    tour(state, Shell(state, link_targets()), link_targets())
    assert state.select == "lm_head"


def test_a_stop_beyond_the_last_is_the_last():
    state, _ = visit("?tour=99")
    shell = Shell(state, link_targets())
    tour(state, shell, link_targets())
    assert "stop 16 of 16" in shell.tour
    assert start_query("kimi-k3").endswith("tour=1")


def test_a_step_of_the_tour_is_one_change_and_back_undoes_it():
    state, address = visit("?tour=1&select=token_embedding")
    shell = Shell(state, link_targets())
    tour(state, shell, link_targets())
    before = address.component.entry
    shell._handle_msg({"go": stop_query(stops(Facts.of("kimi-k3"))[1], 2)})
    assert address.component.entry["n"] == before["n"] + 1
    assert address.component.entry["pushes"] == before["pushes"] + 1
    assert "tour=2" in address.component.entry["search"]


def test_every_block_can_be_read_at_every_depth():
    for block in block_spec.blocks():
        for depth in fields.DETAIL_LEVELS:
            assert len(inspector.overview("k3-random", block, depth=depth)) > 40

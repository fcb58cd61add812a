"""Search finds a block by whatever people remember of it."""

import pytest

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import search


@pytest.fixture(scope="module")
def facts() -> Facts:
    return Facts.of("kimi-k3")


def first(facts: Facts, query: str) -> search.Hit:
    return search.search(facts, query)[0]


@pytest.mark.parametrize(
    ("query", "block"),
    [
        ("decay gate", "kda_decay"),
        ("router", "moe_router"),
        ("A_log", "kda_decay"),
        ("a_log", "kda_decay"),
        ("q_b_proj", "mla_q_up"),
        ("e_score_correction_bias", "moe_router"),
        ("quantile", "moe_router"),
        ("KimiDeltaAttention", "kda"),
        ("lm_head", "lm_head"),
    ],
)
def test_the_first_hit_is_the_one_that_is_meant(facts, query, block):
    assert first(facts, query).block == block


def test_a_hit_shows_what_matched_and_where_it_stands(facts):
    hit = first(facts, "q_b_proj")
    assert hit.what == "tensor"
    assert "".join(hit.text) == "language_model.model.layers.L.self_attn.q_b_proj.weight"
    assert hit.text[1] == "q_b_proj"
    assert hit.path == ("Decoder layer", "Gated MLA")


def test_long_texts_are_cut_around_the_match(facts):
    for hit in search.search(facts, "the"):
        assert len("".join(hit.text)) <= search.BEFORE + search.AFTER + 10
        assert hit.text[1].casefold() == "the"


def test_each_block_is_found_once_and_no_more_than_the_limit(facts):
    hits = search.search(facts, "e")
    assert len(hits) == len({hit.block for hit in hits}) == search.LIMIT


@pytest.mark.parametrize("query", ["", "   ", "no such words at all", "\\", "[", "*"])
def test_nothing_is_found_without_an_error(facts, query):
    assert isinstance(search.search(facts, query), list)


def test_every_word_must_match(facts):
    assert search.search(facts, "decay nonsense") == []


def test_the_groups_around_a_block_are_named(facts):
    assert set(search.around(facts, "mla_q_up")) == {"decoder_layer", "mla"}
    assert search.around(facts, "lm_head") == []

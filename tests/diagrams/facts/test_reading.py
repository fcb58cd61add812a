"""Letters, evidence, provenance and the tour: what the page says beside a number is true of the model."""

import re

import pytest

from k3scope.diagrams.facts import provenance, symbols
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import instances, is_parameter, resolve
from k3scope.diagrams.scene import tour_stops
from k3scope.diagrams.spec import block_spec, citations

MODELS = ["kimi-k3", "k3-random"]
ALL = sorted(block_spec.blocks())
LEAVES = [i for i in ALL if i not in block_spec.groups()]
# numbers in the tour that are no formula: tiles of 16 tokens are derived and tested with the derivations
WORDS = {"16", "0"}


@pytest.fixture(params=MODELS)
def facts(request):
    return Facts.of(request.param)


def test_a_point_or_parameter_belongs_to_one_leaf_block(facts):
    claims: dict[str, set[str]] = {}
    for block in (facts.blocks[i] for i in LEAVES):
        for path in instances(facts.model, block):
            for name in (*block.leaves, *block.out):
                claims.setdefault(resolve(path, name), set()).add(block.id)
    assert {path: ids for path, ids in claims.items() if len(ids) > 1} == {}


@pytest.mark.parametrize("block_id", ALL)
def test_every_letter_with_a_point_leads_to_one_block(facts, block_id):
    block = facts.blocks[block_id]
    path = instances(facts.model, block)[-1]
    for symbol, location in zip(block.symbols, symbols.locations(facts, block_id), strict=True):
        if symbol.is_ == "local":
            assert location == symbols.SymbolLocation()
        elif symbol.is_ in facts.sizes:
            assert location.names
            assert not location.chain
        else:
            assert location.block in facts.blocks
            assert location.chain[0] == location.block
            assert location.live != is_parameter(facts.model, resolve(path, symbol.is_))


def test_letters_of_another_block_lead_there():
    facts = Facts.of("kimi-k3")
    locations = dict(zip((s.symbol for s in facts.blocks["kda_delta_rule"].symbols),
                      symbols.locations(facts, "kda_delta_rule"), strict=True))  # fmt: skip
    assert locations["g_t"].block == "kda_decay"
    assert locations["g_t"].chain == ("kda_decay", "kda", "decoder_layer")
    assert locations["v_t"].block == "kda_short_conv"
    assert locations["D"].names == ("kda_head_dim",)


def test_a_line_of_code_names_the_letters_in_it():
    line = "        z = self.f_b_proj(self.f_a_proj(x)) + self.dt_bias"
    assert symbols.names_in(line, ("f_a_proj", "dt_bias", "bias", "A_log")) == ("f_a_proj", "dt_bias")


@pytest.mark.parametrize("block_id", ALL)
def test_evidence_names_how_sure_it_is_and_what_it_supports(block_id):
    block = block_spec.blocks()[block_id]
    assert block.confidence in citations.MARKS
    for raw in block.sources:
        source = citations.citation_of(raw)
        assert source.supports, raw
        assert not source.url or citations.REVISION in source.url or source.url == citations.REPORT
    for claim in block.others:
        assert citations.citations_in(claim["source"])


def test_a_cited_line_leads_to_the_pinned_file():
    code, config, report, other = citations.citations_in(
        "a_b.py 10-12; config.json x, y; report 2.1 eq 1; a census"
    )
    assert code.url.endswith(f"{citations.REVISION}/a_b.py#L10-L12")
    assert config.url.endswith("/config.json")
    assert report.url == citations.REPORT
    assert other.url == ""
    with pytest.raises(ValueError, match="expected one of A, B, C, M"):
        citations.citation_of({"file": "a.py", "mark": "Z"})
    with pytest.raises(ValueError, match="expected 'file'"):
        citations.citation_of({"for": "nothing"})


def test_the_terms_of_a_number_add_up(facts):
    for line in provenance.headlines(facts):
        if line.provenance.terms:
            assert f"{sum(n for _, n in line.provenance.terms):,}" == line.provenance.value, line.label
    for block_id in facts.blocks:
        block = facts.block(block_id)
        total = provenance.of_block(facts, block)
        assert total.value == f"{block.total:,}"
        if total.terms:
            assert sum(n for _, n in total.terms) == block.total, block_id


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_terms_of_a_layer_add_up_to_the_layer(facts, layer):
    for block_id in ("decoder_layer", "kda", "mla", "latent_moe"):
        block = facts.block(block_id, layer)
        assert sum(n for _, n in provenance.of_block(facts, block, layer).terms) == block.total


def test_only_the_release_points_at_official_files():
    assert all(line.provenance.source for line in provenance.headlines(Facts.of("kimi-k3")))
    assert not any(line.provenance.source for line in provenance.headlines(Facts.of("k3-random")))


def test_the_facts_of_the_release():
    shown = {line.label: line.value for line in provenance.headlines(Facts.of("kimi-k3"))}
    assert shown["parameters"] == "2,779,931,837,184"
    assert shown["active for one token"] == "104,189,614,848"
    assert shown["layers"] == "93 = 69 KDA + 24 MLA"
    assert shown["cache of a token"] == "27,648 bytes"
    assert shown["state of a sequence"] == "434,110,464 bytes"
    assert shown["checkpoint"] == "1,560,860,324,864 bytes"


def test_the_tour_has_about_fifteen_stops_in_places_that_exist(facts):
    stops = tour_stops.stops(facts)
    assert 14 <= len(stops) <= 18
    assert len({stop.id for stop in stops}) == len(stops)
    for stop in stops:
        assert "{" not in stop.text
        assert len(stop.text) <= 320
        parents = {n.id: n.parent for n in block_spec.view("model").nodes}
        assert parents[stop.select] is None or parents[stop.select] in stop.open, "its box is drawn"
        if stop.layer:
            layers = facts.block(stop.select).layers
            assert not layers or int(stop.layer) in layers


def test_numbers_of_the_tour_are_formulas():
    for stop in tour_stops.all_stops():
        literal = re.findall(r"\d+", re.sub(r"\{[^{}]+\}", "", stop.text))
        assert set(literal) <= WORDS, stop.id


def test_what_the_tour_says_of_layers(facts):
    c, stops = facts.config, {stop.id: stop for stop in tour_stops.stops(facts)}
    assert c.candidates(int(stops["mix"].layer), "attn") == 3
    assert c.kinds[-2:] == ("mla", "mla")
    assert int(stops["store"].layer) % c.block == 0
    assert c.kinds[int(stops["mla"].layer)] == "mla"

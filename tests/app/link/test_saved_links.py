"""Links that were shared open what they opened: data/links_v1.json has what release 0.1.0 made of each."""

import json
from pathlib import Path

import pytest

from k3scope.app.link import fields, query
from k3scope.app.page.page import link_targets, opening_html

RECORD = json.loads((Path(__file__).parents[2] / "data" / "links_v1.json").read_text(encoding="utf-8"))
LINKS = RECORD["links"]
DEFAULTS = RECORD["defaults"]
KEYS = {f.name: f.key for f in fields.FIELDS}


@pytest.fixture(scope="module")
def targets():
    return link_targets()


def by_key(values: dict) -> dict:
    """A state by query key, as JSON has it."""
    return {KEYS[name]: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def test_the_record_covers_every_key_with_another_value_than_its_default():
    assert len(LINKS) >= 60
    for key, default in DEFAULTS.items():
        assert any(entry["state"].get(key, default) != default for entry in LINKS), key


def test_the_defaults_of_version_1_stay():
    now = by_key(fields.defaults(1))
    assert {key: now[key] for key in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize("entry", LINKS, ids=lambda entry: entry["link"][:60] or "empty")
def test_a_saved_link_gives_the_state_it_gave(entry, targets):
    link = query.parse(entry["link"], targets)
    state, recorded = by_key(link.values), DEFAULTS | entry["state"]
    if "open=everything" in entry["link"]:  # what there is to open may grow
        assert set(state.pop("open")) >= set(recorded.pop("open"))
    assert {key: state[key] for key in recorded} == recorded
    assert list(link.unknown) == entry.get("unknown", [])
    assert list(link.problems) == entry.get("problems", [])


@pytest.mark.parametrize("entry", LINKS, ids=lambda entry: entry["link"][:60] or "empty")
def test_a_saved_link_written_again_gives_the_same_state(entry, targets):
    first = query.parse(entry["link"], targets)
    again = query.format(first.values, first.unknown)
    second = query.parse(again, targets)
    assert second == query.Link(first.values, first.unknown)
    assert query.format(second.values, second.unknown) == again
    written = [token for token in again.removeprefix("?").split("&") if token and token not in first.unknown]
    assert not written or written[-1] == f"v={fields.VERSION}"


@pytest.mark.parametrize("search", ["?select=kda", "?model=k3-tiny&view=ledger&layer=3", "?tour=3"])
def test_the_page_of_a_link_is_the_same_with_its_version(search):
    assert opening_html(search) == opening_html(f"{search}&v=1")

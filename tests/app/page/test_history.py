"""The address: what it is before anything is done, and what each change of the state writes."""

import pytest

from k3scope.app.page.page import visit


def entries(search: str):
    """A state, and a list that gets what is written into the address."""
    state, address = visit(search)
    written = []
    address.component.param.watch(lambda event: written.append(event.new), "entry")
    return state, address, written


@pytest.mark.parametrize("search", ["", "?select=kda", "?select=kda&v=1", "?embed=1", "?layer=3&select=mla"])
def test_who_does_nothing_keeps_the_address(search):
    state, address, written = entries(search)
    state.param.update(dark=True, layer_rows=object(), notice="text")
    address.read(search)
    assert written == []


def test_a_step_writes_the_version_and_leaves_the_entry_before_as_it_was_opened():
    state, _, written = entries("?select=kda")
    state.pending = {"prompt": "on its way"}
    assert written[-1]["search"] == "?select=kda&prompt=on%20its%20way&v=1"
    assert written[-1]["bare"] == "?select=kda"
    state.pending = {}
    assert (written[-1]["search"], written[-1]["pushes"]) == ("?select=kda", 0)
    state.view = "ledger"
    assert (written[-1]["search"], written[-1]["pushes"]) == ("?view=ledger&select=kda&v=1", 1)
    state.view = "model"
    assert (written[-1]["search"], written[-1]["pushes"]) == ("?select=kda&v=1", 2)


def test_a_complete_link_without_a_version_stays_while_its_run_is_on_its_way():
    search = "?with=k3-random&weights=0123abcd4567&prompt=x&run=abcdefghij23"
    state, _, written = entries(search)
    state.pending = {"prompt": "x", "run_id": "abcdefghij23"}
    assert (written[-1]["search"], written[-1]["bare"]) == (search, search)


def test_what_a_link_got_wrong_leaves_the_address_with_the_first_change():
    state, _, written = entries("?select=nothing&layer=3")
    state.pending = {"prompt": "x"}
    state.pending = {}
    assert written[-1]["search"] == "?layer=3&v=1"


def test_keys_of_others_stay_behind_the_version():
    state, _, written = entries("?embed=1&select=kda")
    state.layer = 3
    assert written[-1]["search"] == "?select=kda&layer=3&v=1&embed=1"
    state.param.update(layer=None, select="")
    assert written[-1]["search"] == "?embed=1"


def test_back_brings_an_entry_as_it_stands():
    state, address, written = entries("?select=kda")
    state.view = "ledger"
    address.read("?select=kda")
    assert (state.view, state.select) == ("model", "kda")
    assert written[-1]["search"] == "?view=ledger&select=kda&v=1"  # Back itself writes nothing

"""Every block in every view and tab of every drawn model: the half of the page that needs no session."""

import pytest

from k3scope.app import models
from k3scope.app.link.fields import DETAIL_LEVELS, TABS, VIEWS
from k3scope.app.page.page import opening_html
from k3scope.diagrams.facts.block_facts import Facts

pytestmark = pytest.mark.sweep
CASES = [(model, block) for model in models.drawn() for block in Facts.of(model).blocks]


def checked(search: str) -> str:
    """The page of a link that has nothing wrong in it."""
    opening_html.cache_clear()
    page = opening_html(search)
    assert "could not be read" not in page, search
    return page


@pytest.mark.parametrize(("model", "block"), CASES, ids=lambda case: case)
def test_a_block_is_shown_in_every_view_and_tab(model, block):
    title = Facts.of(model).blocks[block].title
    layers = Facts.of(model).block(block).layers
    layer = f"&layer={layers[-1]}" if layers else ""
    searches = [f"?model={model}&select={block}&view={view}{layer}" for view in VIEWS]
    searches += [f"?model={model}&select={block}&tab={tab}&depth={DETAIL_LEVELS[-1]}" for tab in TABS]
    searches += [f"?model={model}&select={block}&open={block}&phase=decode&types=on&B=2&T=4096"]
    for search in searches:
        assert title in checked(search), search


@pytest.mark.parametrize("model", models.drawn())
def test_every_layer_of_a_model_is_drawn(model):
    for layer in range(Facts.of(model).config.layers):
        assert f"layer {layer}" in checked(f"?model={model}&layer={layer}").lower()

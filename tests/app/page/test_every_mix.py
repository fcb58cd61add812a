"""The page of any mix of layers: every block in every view, a run, and every view of the Lab."""

import pytest

from k3scope.app import models
from k3scope.app.lab.lab_views import VIEWS as LAB_VIEWS
from k3scope.app.lab.lab_views import Selection, chosen_layer, draw
from k3scope.app.link.fields import TABS, VIEWS
from k3scope.app.page.page import opening_html
from k3scope.diagrams.facts import provenance
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.model.checkpoint import model_registry
from k3scope.model.init import build, random_model
from k3scope.model.runs.lab import lab
from tests.helpers.mixes import CHANGES, MIXES, save

# of plain residuals, and of MLA without a gate
SAID = {(True, True): (), (False, True): ("no mixes",), (False, False): ("no mixes", "no gate")}
ABSENT = {"routing": "no MoE layers", "memory": "no KDA layers", "attention": "no MLA layers"}


def drawn_or_said(run, slot, choice, selection) -> str:
    """What is said in place of a picture, in two words."""
    known = {"no output gate": "no gate", "compare with": "of two runs", "no mixes over depth": "no mixes"}
    try:
        return "drawn" if draw(run, slot, choice, selection).image.size else "empty"
    except ValueError as error:
        return next((short for part, short in known.items() if part in str(error)), str(error))


@pytest.mark.parametrize("name", MIXES)
def test_every_picture_of_the_lab_is_drawn_or_its_absence_is_said(name):
    config = MIXES[name]
    run = lab([3, 1, 4, 1, 5, 9, 2], random_model(config))
    assert repr(run)
    known = ("drawn", "of two runs", *SAID[bool(config.block), config.mla_gate])
    for title, view in LAB_VIEWS.items():
        if problem := view.problem(config):
            assert ABSENT[title] in problem
            continue
        selection = Selection(chosen_layer(view, config), 0 if view.heads(config) else None, 3)
        for slot in view.slots:
            for choice in slot.choices:
                assert drawn_or_said(run, slot, choice, selection) in known


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """A folder of every mix, registered under its name."""
    monkeypatch.setattr(model_registry, "REGISTERED", registry := {})
    for module in ("k3scope.model.loading", "k3scope.app.models"):
        monkeypatch.setattr(f"{module}.REGISTERED", registry)
    return save(CHANGES, tmp_path)


@pytest.mark.sweep
def test_every_block_of_every_mix_is_shown_in_every_view_and_tab(folders):
    for name, folder in folders.items():
        models.add(f"mix-{name}={folder}")
        assert models.why_not_runnable(f"mix-{name}") == ""
        facts = Facts.of(f"mix-{name}")
        searches = [f"&layer={layer}" for layer in range(facts.config.layers)]
        for n, block in enumerate(facts.blocks):  # all views and tabs in turn
            searches.append(f"&select={block}&view={VIEWS[n % len(VIEWS)]}&tab={TABS[n % len(TABS)]}")
            searches.append(f"&select={block}&open={block}&compare=kimi-k3")
        for search in searches:
            opening_html.cache_clear()
            page = opening_html(f"?model=mix-{name}{search}")
            assert "could not be read" not in page, (name, search)


def test_the_header_counts_the_kinds_of_layers_there_are():
    texts = {
        name: provenance.kinds(Facts(name, build(MIXES[name])))
        for name in ("all", "kda-only", "one-mla-layer")
    }
    assert texts == {"all": "2 KDA + 1 MLA", "kda-only": "3 KDA", "one-mla-layer": "1 MLA"}

"""The page in two halves: what a link shows by itself, and what only a visitor's session can.

The first is text, the same for everybody with that link; the second joins it.
"""

from functools import lru_cache

import panel as pn

from k3scope.app import models
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.models import title
from k3scope.app.page.architecture import controls
from k3scope.app.page.architecture import tour_card as tours
from k3scope.app.page.architecture.diagram import diagram, first, script
from k3scope.app.page.architecture.header import header
from k3scope.app.page.architecture.stage import VIEWS, stage
from k3scope.app.page.history import Address
from k3scope.app.page.inspector.inspector import TABS, inspector
from k3scope.app.page.kit import templates, theme
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.sheets.compare_sheet import CompareView
from k3scope.app.page.sheets.cost_sheet import CostView
from k3scope.app.page.sheets.ledger_sheet import ledger
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import details
from k3scope.diagrams.spec import block_spec


def link_targets() -> LinkTargets:
    """What a link targets name."""
    names = models.drawn()
    return LinkTargets(
        models=names,
        blocks={name: frozenset(Facts.of(name).blocks) for name in names},
        groups=frozenset(block_spec.groups()),
        layers={name: Facts.of(name).config.layers for name in names},
        compared=models.compared(),
        has_part=lambda model, block, part: details.detail(Facts.of(model), block, part) is not None,
    )


def visit(search: str) -> tuple[State, Address]:
    """The state that a link asks for, and the address that follows it."""
    state = State()
    return state, Address(state, link_targets(), search)


@lru_cache(maxsize=64)
def opening(search: str) -> str:
    """The page of a link down to where the session's half begins: drawing, details, all that is in sight."""
    state, _ = visit(search)
    targets = link_targets()
    shell = _filled(state, targets)
    sheets = {"cost": CostView(state), "compare": CompareView(state)}
    return templates.render(
        "page.html",
        now=shell.now,
        slots=shell.shown,
        models=targets.models,
        titles={name: title(name) for name in targets.models},
        tour=tours.first(state.model),
        views=VIEWS,
        tabs=TABS,
        first=first(state),
        drawing=script(),
        controls=controls.bar(state, targets),
        sheets={name: (sheet.controls, sheet.results) for name, sheet in sheets.items()},
        colours=theme.drawing_colours(),
    )


def page(state: State, address: Address, dock, live, lab) -> pn.Template:
    """The session's half for one visitor; dock, live and lab are viewables built on the same state."""
    targets = link_targets()
    shell = _filled(state, targets)
    shell.keep()
    template = pn.Template(templates.template("session.html"))
    places = {"dock": dock, "about-live": live, "stage-lab": lab}
    helpers = {
        "shell": shell,
        "address": address.component,
        "diagram": diagram(state),
        "controls": controls.controls(state, targets),
        "cost": CostView(state),
        "compare": CompareView(state),
    }
    for name, viewable in (places | helpers).items():
        template.add_panel(name.replace("-", "_"), viewable)
    template.add_variable("places", list(places))
    template.add_variable("helpers", list(helpers))
    return template


def _filled(state: State, targets: LinkTargets) -> Shell:
    """The fixed places of the page, filled."""
    shell = Shell(state, targets)
    tours.tour(state, shell, targets)  # first: a link with no more than a stop brings its place along
    for part in (header, stage, inspector, ledger):
        part(state, shell)
    return shell

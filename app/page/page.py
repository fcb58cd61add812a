"""The page in two halves: what a link shows by itself, and what only a visitor's session can.

The first is text, the same for everybody with that link; the second joins it.
"""

from functools import lru_cache

import panel as pn

from app import html, link, models, theme
from app.address import Address
from app.parts import controls
from app.parts import tour as tours
from app.parts.compare import CompareView
from app.parts.cost import CostView
from app.parts.diagram import diagram, first, script
from app.parts.header import header, title
from app.parts.inspector import TABS, inspector
from app.parts.ledger import ledger
from app.parts.stage import VIEWS, stage
from app.shell import Shell
from app.state import State
from diagrams import details, spec
from diagrams.facts import Facts


def known() -> link.Known:
    """What a link may name."""
    names = models.drawn()
    return link.Known(
        models=names,
        blocks={name: frozenset(Facts.of(name).blocks) for name in names},
        groups=frozenset(spec.groups()),
        layers={name: Facts.of(name).config.layers for name in names},
        compared=models.compared(),
        part=lambda model, block, part: details.detail(Facts.of(model), block, part) is not None,
    )


def visit(search: str) -> tuple[State, Address]:
    """The state that a link asks for, and the address that follows it."""
    state = State()
    return state, Address(state, known(), search)


@lru_cache(maxsize=64)
def opening(search: str) -> str:
    """The page of a link down to where the session's half begins: drawing, details, all that is in sight."""
    state, _ = visit(search)
    may = known()
    shell = _filled(state, may)
    sheets = {"cost": CostView(state), "compare": CompareView(state)}
    return html.render(
        "page.html",
        now=shell.now,
        slots=shell.shown,
        models=may.models,
        titles={name: title(name) for name in may.models},
        tour=tours.first(state.model),
        views=VIEWS,
        tabs=TABS,
        first=first(state),
        drawing=script(),
        controls=controls.bar(state, may),
        sheets={name: (sheet.controls, sheet.results) for name, sheet in sheets.items()},
        colours=theme.drawing_colours(),
    )


def page(state: State, address: Address, dock, live, lab) -> pn.Template:
    """The session's half for one visitor; dock, live and lab are viewables built on the same state."""
    may = known()
    shell = _filled(state, may)
    shell.keep()
    template = pn.Template(html.template("session.html"))
    places = {"dock": dock, "about-live": live, "stage-lab": lab}
    helpers = {
        "shell": shell,
        "address": address.component,
        "diagram": diagram(state),
        "controls": controls.controls(state, may),
        "cost": CostView(state),
        "compare": CompareView(state),
    }
    for name, viewable in (places | helpers).items():
        template.add_panel(name.replace("-", "_"), viewable)
    template.add_variable("places", list(places))
    template.add_variable("helpers", list(helpers))
    return template


def _filled(state: State, may: link.Known) -> Shell:
    """The fixed places of the page, filled."""
    shell = Shell(state, may)
    tours.tour(state, shell, may)  # first: a link with no more than a stop brings its place along
    for part in (header, stage, inspector, ledger):
        part(state, shell)
    return shell

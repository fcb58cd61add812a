"""The page: one visitor's state, the parts that show it, and the template they stand in."""

import panel as pn

from app import html, link, theme
from app.address import Address
from app.parts import controls
from app.parts.compare import OTHERS, CompareView
from app.parts.cost import CostView
from app.parts.diagram import diagram, sketch
from app.parts.header import header, title
from app.parts.inspector import TABS, inspector
from app.parts.ledger import ledger
from app.parts.stage import VIEWS, stage
from app.parts.tour import first, tour
from app.shell import SLOTS, Shell
from app.state import State
from diagrams import spec
from diagrams.facts import Facts
from model.presets import DRAWN, preset


def known(models: tuple[str, ...] = DRAWN) -> link.Known:
    """What a link may name."""
    return link.Known(
        models=models,
        blocks={name: frozenset(Facts.of(name).blocks) for name in models},
        groups=frozenset(spec.groups()),
        layers={name: preset(name).layers for name in models},
        compared=OTHERS,
    )


def visit(search: str) -> tuple[State, Address]:
    """The state that a link asks for, and the address that follows it."""
    state = State()
    return state, Address(state, known(), search)


def page(state: State, address: Address, dock, live, lab) -> pn.Template:
    """The whole page for one visitor; dock, live and lab are viewables built on the same state."""
    may = known()
    shell = Shell(state, may)
    tour(state, shell, may)  # first: a link with no more than a stop brings its place along
    for part in (header, stage, inspector, ledger):
        part(state, shell)
    template = pn.Template(html.template("page.html"))
    places = {"diagram": diagram(state), "dock": dock, "live": live, "lab": lab}
    places["controls"] = controls.controls(state, may)
    sheets = {"cost": CostView(state), "compare": CompareView(state)}
    places |= sheets
    for name, viewable in (places | {"shell": shell, "address": address.component}).items():
        template.add_panel(name, viewable)
    for name, value in {
        "now": shell.now,
        "slots": {slot: getattr(shell, slot) for slot in SLOTS},
        "models": may.models,
        "titles": {name: title(name) for name in may.models},
        "tour": first(state.model),
        "views": VIEWS,
        "tabs": TABS,
        "sketch": sketch(state),
        "controls": controls.bar(state, may),
        "sheets": {name: (sheet.controls, sheet.results) for name, sheet in sheets.items()},
        "colours": theme.drawing_colours(),
    }.items():
        template.add_variable(name, value)
    return template

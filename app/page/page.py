"""The page in two halves: the opening, what a link shows by itself, and what only a visitor's session can.

The first is text, the same for everybody with that link; the second joins it.
"""

import panel as pn

from k3scope.app import models
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.architecture import controls, diagram, tour_card
from k3scope.app.page.architecture.header import header
from k3scope.app.page.architecture.stage import VIEWS, stage
from k3scope.app.page.history import AddressBar
from k3scope.app.page.inspector.inspector import TABS, inspector
from k3scope.app.page.kit import templates, theme
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.text_cache import text_cache
from k3scope.app.page.sheets.compare_sheet import CompareView
from k3scope.app.page.sheets.cost_sheet import CostView
from k3scope.app.page.sheets.ledger_sheet import ledger
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import details
from k3scope.diagrams.spec import block_spec


def link_targets() -> LinkTargets:
    """What a link may name, of the models that are drawn here."""
    names = models.drawn()
    return LinkTargets(
        models=names,
        blocks={name: frozenset(Facts.of(name).blocks) for name in names},
        groups=frozenset(block_spec.groups()),
        layers={name: Facts.of(name).config.layers for name in names},
        compared=models.compared(),
        has_part=lambda model, block, part: details.detail(Facts.of(model), block, part) is not None,
    )


def visit(search: str) -> tuple[State, AddressBar]:
    """The state that a link asks for, and the address that follows it."""
    state = State()
    return state, AddressBar(state, link_targets(), search)


# one text serves every visitor with that link
@text_cache(megabytes=48)
def opening_html(search: str) -> str:
    """The page of a link down to where the session's half begins: diagram, details, the open sheet."""
    state, _ = visit(search)
    targets = link_targets()
    shell = _filled_shell(state, targets)
    sheets = {"cost": CostView(state), "compare": CompareView(state)}
    return templates.render(
        "page.html",
        current=shell.current,
        slots=shell.html,
        models=targets.models,
        titles={name: models.title(name) for name in targets.models},
        tour_start=tour_card.start_query(state.model),
        views=VIEWS,
        tabs=TABS,
        initial=diagram.initial_values(state),
        diagram_script=diagram.script(),
        controls=controls.controls_html(state, targets),
        sheets={name: (sheet.controls, sheet.results) for name, sheet in sheets.items()},
        colours=theme.drawing_colours(),
    )


def session_template(state: State, address: AddressBar, dock, live, lab) -> pn.Template:
    """The session's half for one visitor; dock, live and lab are viewables built on the same state."""
    targets = link_targets()
    shell = _filled_shell(state, targets)
    shell.mark_rendered()
    template = pn.Template(templates.template("session.html"))
    mounted = {"dock": dock, "about-live": live, "stage-lab": lab}  # by id of the element that they fill
    hidden = {  # they fill or listen to what the opening has brought
        "shell": shell,
        "address": address.component,
        "diagram": diagram.diagram(state),
        "controls": controls.controls(state, targets),
        "cost": CostView(state),
        "compare": CompareView(state),
    }
    for name, viewable in (mounted | hidden).items():
        template.add_panel(name.replace("-", "_"), viewable)
    template.add_variable("mounted", list(mounted))
    template.add_variable("hidden", list(hidden))
    return template


def _filled_shell(state: State, targets: LinkTargets) -> Shell:
    """The shell of the page with its slots filled."""
    shell = Shell(state, targets)
    tour_card.tour(state, shell, targets)  # first: a link that is only a stop of the tour sets the selection
    for part in (header, stage, inspector, ledger):
        part(state, shell)
    return shell

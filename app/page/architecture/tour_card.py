"""The guided tour: a card under the stage's bar that leads from stop to stop."""

from k3scope.app.link import query
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene.tour_stops import stop_query, stops


def start_query(model: str) -> str:
    """Where the button that starts the tour leads, as a part of a link."""
    return stop_query(stops(Facts.of(model))[0], 1)


def tour(state: State, shell: Shell, targets: LinkTargets) -> None:
    """Show the card while the tour is on. A link with no more than a stop's number sets what it shows too."""

    def show(*_):
        shell.fill(tour=_card(state.model, state.tour) if state.tour else "")

    if state.tour and not state.select:
        all_stops = stops(Facts.of(state.model))
        number = min(state.tour, len(all_stops))
        link = stop_query(all_stops[number - 1], number)
        state.param.update(**query.parse_update(link, targets, state.linked()))
    state.follow("tour", show)
    show()


def _card(model: str, number: int) -> str:
    """The card of a stop, counted from 1; a number beyond the last is the last."""
    all_stops = stops(Facts.of(model))
    number = min(number, len(all_stops))
    return render(
        "tour.html",
        stop=all_stops[number - 1],
        number=number,
        queries=[stop_query(stop, n) for n, stop in enumerate(all_stops, 1)],
    )

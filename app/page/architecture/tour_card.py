"""The guided tour: a card under the stage's bar that leads from stop to stop."""

from k3scope.app.link import query
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene.tour_stops import stop_query, stops


def first(model: str) -> str:
    """Where the button that starts the tour leads."""
    return stop_query(stops(Facts.of(model))[0], 1)


def tour(state: State, shell: Shell, targets: LinkTargets) -> None:
    """Show the card while the tour is on. A link with no more than a stop's number brings its place along."""

    def show(*_):
        shell.fill(tour=_card(state.model, state.tour) if state.tour else "")

    if state.tour and not state.select:
        found = stops(Facts.of(state.model))
        at = min(state.tour, len(found))
        state.param.update(**query.parse_update(stop_query(found[at - 1], at), targets, state.linked()))
    state.follow("tour", show)
    show()


def _card(model: str, number: int) -> str:
    found = stops(Facts.of(model))
    at = min(number, len(found))
    return render(
        "tour.html",
        stop=found[at - 1],
        at=at,
        many=len(found),
        places=[stop_query(stop, n) for n, stop in enumerate(found, 1)],
    )

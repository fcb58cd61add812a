"""What a visitor chooses in the Lab: messages of the browser and clicks in plots, as changes of the state."""

import re

from k3scope.app.lab.lab_views import VIEWS
from k3scope.app.page.lab.baseline_menu import comparable
from k3scope.app.page.lab.lab_snapshot import LabSnapshot
from k3scope.app.runs.run_session import RunSession
from k3scope.model.measure.picture import Picture


def on_message(session: RunSession, data: dict) -> None:
    """Choose a view, layer, head, token or baseline, if the run on show has it."""
    state, result = session.state, session.result
    match data:
        case {"view": str(name)} if name in VIEWS:
            state.lab_view = name
        case {"layer": int(layer)} if 0 <= layer < result.config.layers:
            _set_layer(session, layer)
        case {"head": int(head)} if head >= 0:
            state.head = head
        case {"token": int(token)} if 0 <= token < len(result.tokens):
            state.token = token
        case {"baseline": str(chosen)} if chosen in dict(comparable(session)):
            state.baseline = chosen


def on_tap(session: RunSession, snapshot: LabSnapshot, picture: Picture, row: int, column: int) -> None:
    """A click in a plot chooses what its row and its column stand for."""
    top, bottom, left, right = picture.numbers
    if not (top <= row <= bottom and left <= column <= right):
        return
    for number, first, axis, names in (
        (row, top, picture.down, picture.rows),
        (column, left, picture.across, picture.columns),
    ):
        if axis == "token":
            on_message(session, {"token": int(snapshot.shared[number])})
        elif axis.endswith("head"):
            on_message(session, {"head": number})
        elif "layer" in axis and number - first < len(names):
            _set_layer_by_name(session, names[number - first])


def _set_layer_by_name(session: RunSession, name: str) -> None:
    if layer := re.search(r"(\d+)$", name):
        _set_layer(session, int(layer[1]))


def _set_layer(session: RunSession, layer: int) -> None:
    """The page's own layer where the model that ran is drawn; else a layer of the Lab alone."""
    state = session.state
    view = state.lab_view.partition(":")[0]
    if state.model == session.result.spec.model:
        state.param.update(layer=layer, lab_view=view)
    else:
        state.lab_view = f"{view}:{layer}"

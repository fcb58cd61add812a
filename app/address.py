"""Keep the browser's address and the state equal: history entries out, Back and Forward in."""

from pathlib import Path

import param

from app import link
from app.state import State
from app.turn import Ordered, turn
from assets import ROOT

# a change of one of these is a step that Back undoes; the rest only adjusts the current entry
STEPS = {"model", "view", "select", "prompt"}


class UrlState(Ordered):
    """The query string of the browser window. Panel's own Location does not hear Back."""

    entry = param.Dict({"search": "", "push": False, "n": 0}, doc="the entry to write; n makes each one new")

    _esm = Path(ROOT / "urlstate.js")

    def __init__(self, on_arrival, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._on_arrival = on_arrival

    def _handle_msg(self, data) -> None:
        search = data.get("search") if isinstance(data, dict) else None
        if isinstance(search, str):
            turn(lambda: self._on_arrival(search))

    def write(self, search: str, push: bool) -> None:
        self.entry = {"search": search, "push": push, "n": self.entry["n"] + 1}


class Address:
    """The two ways between a state and the address."""

    def __init__(self, state: State, known: link.Known, search: str):
        self._state, self._known = state, known
        self._arriving = False
        self._unknown: tuple[str, ...] = ()
        self.component = UrlState(on_arrival=self.read)
        self.read(search)
        state.param.watch(self._write, list(link.DEFAULTS))

    def read(self, search: str) -> None:
        """Take over what a link says; the address itself stays as it is."""
        found = link.parse(search, self._known)
        self._unknown = found.unknown
        self._arriving = True
        try:
            self._state.param.update(problems=list(found.problems), **found.values)
        finally:
            self._arriving = False

    def _write(self, *events) -> None:
        if self._arriving:
            return
        values = link.shareable(self._state.linked())
        self.component.write(link.format(values, self._unknown), any(map(_is_step, events)))


def _is_step(event) -> bool:
    if event.name == "run":
        return bool(event.old)  # a first run only completes the step that typing its prompt made
    return event.name in STEPS

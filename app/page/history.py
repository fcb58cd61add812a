"""Keep the browser's address and the state equal: history entries out, Back and Forward in."""

import param

from k3scope.app.link import query
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts

# a change of one of these is a step that Back undoes; the rest only adjusts the current entry
STEPS = {"model", "view", "select", "prompt"}


class UrlState(OrderedComponent):
    """The query string of the browser window. Panel's own Location does not hear Back."""

    entry = param.Dict(
        {"search": "", "bare": None, "pushes": 0, "n": 0},
        doc="the entry to write, what it is once it is left, entries pushed so far; n makes each new",
    )

    _esm = scripts("urlstate")

    def __init__(self, on_arrival, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._on_arrival = on_arrival

    def _handle_msg(self, data) -> None:
        search = data.get("search") if isinstance(data, dict) else None
        if isinstance(search, str):
            dispatch(lambda: self._on_arrival(search))

    def write(self, search: str, bare: str, push: bool) -> None:
        """Messages of one turn become one, so pushes are counted: none gets lost behind a later change."""
        before = self.entry
        counts = {"pushes": before["pushes"] + push, "n": before["n"] + 1}
        self.entry = {"search": search, "bare": bare} | counts


class Address:
    """The two ways between a state and the address.

    While a run is on its way the address says what it will be, so that a reload brings it back. That lies
    over the entry that is there: only when the run has ended it becomes an entry of its own, and the one
    before is what it was.

    An address that was opened stays as it was written until the view changes: a link without `v` gets none.
    """

    def __init__(self, state: State, targets: LinkTargets, search: str):
        self._state, self._targets = state, targets
        self._arriving = False
        self._unknown: tuple[str, ...] = ()
        self._opened: tuple[str, str] | None = None  # the link of the state that was read, and as written
        self.component = UrlState(on_arrival=self.read)
        self.read(search)
        state.follow("history", self._write)

    def read(self, search: str) -> None:
        """Take over what a link says; the address itself stays as it is."""
        link = query.parse(search, self._targets)
        self._unknown = link.unknown
        self._opened = None if link.problems else (self._format(link.values), search)
        self._arriving = True
        try:
            self._state.param.update(problems=list(link.problems), **link.values)
        finally:
            self._arriving = False
        if self._state.pending:
            self._write()

    def _write(self, *events) -> None:
        if self._arriving:
            return
        values = self._state.linked()
        search, bare = self._format(values | self._state.pending), self._format(values)
        if self._opened and self._opened[0] != bare:
            self._opened = None
        written = dict([self._opened]) if self._opened else {}
        self.component.write(written.get(search, search), written.get(bare, bare), any(map(_is_step, events)))

    def _format(self, values: dict) -> str:
        return query.format(query.shareable(values), self._unknown)


def _is_step(event) -> bool:
    if event.name == "run_id":
        return bool(event.old)  # a first run only completes the step that typing its prompt made
    return event.name in STEPS

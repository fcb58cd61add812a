"""Keep the browser's address and the state equal: history entries out, Back and Forward in."""

from collections.abc import Callable

import param

from k3scope.app.link import query
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts

# a change of one of these pushes an entry, so that Back undoes it; any other replaces the current entry:
# whoever walks through layers or moves the camera would press Back a hundred times
PUSHING_FIELDS = {"model", "view", "select", "prompt"}


class BrowserHistory(OrderedComponent):
    """The query string of the browser window. Panel's own Location does not hear Back.

    The browser sends `{search}`, the query string it went to by Back or Forward.
    """

    entry = param.Dict(
        {"search": "", "bare": None, "pushes": 0, "n": 0},
        doc="search: the query string to write; bare: what it becomes once another entry is pushed over it, "
        "None for as it stands; pushes: entries pushed so far; n: writes so far, so that each is sent",
    )

    _esm = scripts("history")

    def __init__(self, on_navigation: Callable[[str], None], **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._on_navigation = on_navigation

    def _handle_msg(self, data) -> None:
        search = data.get("search") if isinstance(data, dict) else None
        if isinstance(search, str):
            dispatch(lambda: self._on_navigation(search))

    def write(self, search: str, bare: str, push: bool) -> None:
        """Writes of one dispatch become one message, so pushes are counted: a later one hides none."""
        before = self.entry
        counts = {"pushes": before["pushes"] + push, "n": before["n"] + 1}
        self.entry = {"search": search, "bare": bare} | counts


class AddressBar:
    """The two ways between a state and the address.

    While a run is pending the address says what it will be, so that a reload brings it back. That lies over
    the entry that is there: only when the run has ended it becomes an entry of its own, and the one before
    gets its bare query string back.

    An address that was opened stays as it was written until the view changes: a link without `v` gets none.
    """

    def __init__(self, state: State, targets: LinkTargets, search: str):
        self._state, self._targets = state, targets
        self._reading = False  # what a link sets must not be written back as an entry
        self._unknown: tuple[str, ...] = ()
        self._opened: tuple[str, str] | None = None  # the link as `format` writes it, and as it was written
        self.component = BrowserHistory(on_navigation=self.read)
        self.read(search)
        state.follow("history", self._write)

    def read(self, search: str) -> None:
        """Take over what a link says; the address itself stays as it is."""
        link = query.parse(search, self._targets)
        self._unknown = link.unknown
        self._opened = None if link.problems else (self._format(link.values), search)
        self._reading = True
        try:
            self._state.param.update(problems=list(link.problems), **link.values)
        finally:
            self._reading = False
        if self._state.pending:
            self._write()

    def _write(self, *events) -> None:
        if self._reading:
            return
        values = self._state.linked()
        search, bare = self._format(values | self._state.pending), self._format(values)
        if self._opened and self._opened[0] != bare:
            self._opened = None
        as_opened = dict([self._opened]) if self._opened else {}
        push = any(map(_pushes, events))
        self.component.write(as_opened.get(search, search), as_opened.get(bare, bare), push)

    def _format(self, values: dict) -> str:
        return query.format(query.shareable(values), self._unknown)


def _pushes(event) -> bool:
    """Whether a change of the state is an entry of its own."""
    if event.name == "run_id":
        return bool(event.old)  # a first run only completes the entry that typing its prompt pushed
    return event.name in PUSHING_FIELDS

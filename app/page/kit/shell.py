"""The browser's half of the page: the fixed places of the template, filled and listened to."""

import param

from k3scope.app.link import query
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts

AS_IT_IS = "="  # in place of what the page has from the start

SLOTS = (
    "facts",
    "problems",
    "crumbs",
    "layers",
    "subject",
    "overview",
    "parameters",
    "code",
    "ledger",
    "tour",
)


class Shell(OrderedComponent):
    """Fills the slots of page.html with HTML made here, and brings clicks on `data-go` back to the state."""

    facts = param.String()
    problems = param.String()
    crumbs = param.String()
    layers = param.String()
    subject = param.String()
    overview = param.String()
    parameters = param.String()
    code = param.String()
    ledger = param.String()
    tour = param.String()
    found = param.String(doc="what the ledger's search found, as HTML")
    sought = param.String(doc="what is typed into the ledger's search")
    now = param.Dict({}, doc="what is chosen: view, tab, model, select, layer, and the window's title")
    said = param.String("", doc="announced to screen readers when it changes")
    dark = param.Boolean(False, doc="what the browser shows; set there")

    _esm = scripts("shell")

    def __init__(self, state: State, targets: LinkTargets, **more):
        super().__init__(width=0, height=0, margin=0, **more)
        self._state, self._targets = state, targets
        self.shown = dict.fromkeys(SLOTS, "")
        self.param.watch(lambda event: dispatch(lambda: setattr(state, "dark", event.new)), "dark")
        state.follow("shell.notice", lambda event: setattr(self, "said", event.new))

    def fill(self, **slots: str) -> None:
        """Put HTML into places; what stands there already is not sent again."""
        fresh = {name: text for name, text in slots.items() if self.shown[name] != text}
        self.shown |= fresh
        self.param.update(**fresh)

    def keep(self) -> None:
        """What is shown up to here came with the page itself."""
        self.param.update(**dict.fromkeys(SLOTS, AS_IT_IS))

    def _handle_msg(self, data) -> None:
        """A click on `data-go="select=kda&tab=code"`: the words of the link, read with the same care."""
        wanted = data.get("go") if isinstance(data, dict) else None
        sought = data.get("find") if isinstance(data, dict) else None
        if isinstance(sought, str):
            dispatch(lambda: setattr(self, "sought", sought[:200]))
        if isinstance(wanted, str):
            dispatch(lambda: self._go(wanted))

    def _go(self, wanted: str) -> None:
        self._state.param.update(**query.parse_update(wanted, self._targets, self._state.linked()))

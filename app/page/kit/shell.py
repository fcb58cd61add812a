"""The page itself as a component: the slots of page.html, filled and listened to."""

import param

from k3scope.app.link import query
from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.state import State
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts

AS_RENDERED = "="  # of a slot: what came with the page; sending the HTML once more would double the message
MAX_QUERY = 200  # characters of the ledger's search

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
    """Fills the slots of page.html with HTML made here, and takes clicks on `data-go` to the state.

    Messages of the browser: `{go}` is a part of a link, `{tensor_query}` the text of the ledger's search.
    """

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
    tensor_query = param.String(doc="text of the ledger's search")
    tensor_matches = param.String(doc="tensors that match it, as HTML")
    current = param.Dict({}, doc="view, tab, model, select and layer as they are, and the window's title")
    announcement = param.String("", doc="read out by screen readers when it changes")
    dark = param.Boolean(False, doc="the theme on show; set by the browser")

    _esm = scripts("shell")

    def __init__(self, state: State, targets: LinkTargets, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._state, self._targets = state, targets
        self.html = dict.fromkeys(SLOTS, "")  # by slot, what the browser shows
        self.param.watch(lambda event: dispatch(lambda: setattr(state, "dark", event.new)), "dark")
        state.follow("shell.notice", lambda event: setattr(self, "announcement", event.new))

    def fill(self, **slots: str) -> None:
        """Put HTML into slots; what stands there already is not sent again."""
        changed = {name: html for name, html in slots.items() if self.html[name] != html}
        self.html |= changed
        self.param.update(**changed)

    def mark_rendered(self) -> None:
        """What the slots have up to here came with the page itself and is not sent."""
        self.param.update(**dict.fromkeys(SLOTS, AS_RENDERED))

    def _handle_msg(self, data) -> None:
        if not isinstance(data, dict):
            return
        if isinstance(text := data.get("tensor_query"), str):
            dispatch(lambda: setattr(self, "tensor_query", text[:MAX_QUERY]))
        if isinstance(link := data.get("go"), str):
            dispatch(lambda: self._go(link))

    def _go(self, link: str) -> None:
        """Take over a part of a link, "select=kda&tab=code"; it is checked like one that was typed."""
        self._state.param.update(**query.parse_update(link, self._targets, self._state.linked()))

"""From the browser and back: messages are handled in order, and what they change goes out in one message."""

from collections.abc import Callable

import panel as pn
from panel.custom import JSComponent
from panel.io.document import hold
from panel.io.state import set_curdoc

from k3scope.app.page.kit import panel_patches


def dispatch(action: Callable[[], None]) -> None:
    """Run it now when there is no browser, else as soon as the document is free; changes go out together.

    From a worker thread Panel would schedule every change by itself, and one may then wait for the next
    click: the hold of one thread also catches the callbacks that another one schedules. So all of it happens
    on the document's own thread.
    """
    doc = pn.state.curdoc
    context = doc.session_context if doc else None
    if context is None:
        action()
        return

    async def run_held(document) -> None:
        with set_curdoc(document), hold(document):
            action()

    loop = context.server_context.application_context.io_loop
    loop.add_callback(context.with_locked_document, run_held)


class OrderedComponent(JSComponent):
    """Takes the browser's messages one after the other: on the server's threads a later one may overtake.

    So `_handle_msg` must not take long; what it starts with `dispatch` keeps the order.
    """

    __abstract = True

    async def _event_coroutine(self, doc, event) -> None:
        await panel_patches.ordered_event(self, doc, event)

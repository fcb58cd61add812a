"""What a visitor does is answered in one turn: on the document's own thread, in one message.

From a worker thread Panel would schedule every change by itself, and one may then wait for the next click:
the hold of one thread also catches the callbacks that another one schedules.
"""

from collections.abc import Callable

import panel as pn
from bokeh.document import Document
from panel.custom import JSComponent
from panel.io import document as sending
from panel.io.document import hold
from panel.io.state import set_curdoc


def turn(act: Callable[[], None]) -> None:
    """Do it now when there is no browser, else as soon as the document is free; changes go out together."""
    doc = pn.state.curdoc
    context = doc.session_context if doc else None
    if context is None:
        act()
        return

    async def whole(document) -> None:
        with set_curdoc(document), hold(document):
            act()

    loop = context.server_context.application_context.io_loop
    loop.add_callback(context.with_locked_document, whole)


class Ordered(JSComponent):
    """Hears the browser's messages one after the other: on the server's threads a later one may overtake.

    So `_handle_msg` must not take long; what it starts with `turn` keeps the order.
    """

    __abstract = True

    async def _event_coroutine(self, doc, event) -> None:
        for change in list(pn.state._change_callbacks.get(doc, {}).values()):
            await change()
        self._process_bokeh_event(doc, event)


_dispatch = sending._dispatch_msgs


async def _send(doc: Document) -> None:
    """Panel drops its mark of messages that wait when it has written the ones before, and then passes
    by those that came meanwhile: without this a page may miss a change until the next one.
    """
    if doc in sending._WRITE_MSGS:
        sending._WRITE_BLOCK[doc] = True
    await _dispatch(doc)


sending._dispatch_msgs = _send

"""From the browser and back: messages are handled in order, and what they change goes out in one message.

The event loop takes messages and passes them on. What a message asks for is done on a thread while the
document's lock is held: a visitor's changes stay in order, and nobody waits for those of another.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import panel as pn
from panel.custom import JSComponent
from panel.io.document import hold
from panel.io.state import set_curdoc

from k3scope.app.page.kit import panel_patches

THREADS = 4  # that work for visitors at once
OPENING = 2  # that open pages: who works already comes before who comes


class PageThreads:
    """The threads that answer messages; `resize` before the first one comes."""

    def __init__(self):
        self._opening = ThreadPoolExecutor(OPENING, "opening")
        self.resize(THREADS)

    def resize(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, "page")

    async def run(self, act: Callable[[], object]) -> object:
        """What `act` gives, with the context variables of the caller."""
        return await self._run(self._executor, act)

    async def open(self, act: Callable[[], object]) -> object:
        """The same on a thread that opens pages."""
        return await self._run(self._opening, act)

    async def _run(self, executor: ThreadPoolExecutor, act: Callable[[], object]) -> object:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(executor, context.run, act)


threads = PageThreads()


def dispatch(action: Callable[[], None]) -> None:
    """Run it now when there is no browser, else as soon as the document is free; changes go out together.

    Panel takes a document for locked when another thread than its own changes it, and would schedule every
    change by itself: so the thread that works owns the document for that time.
    """
    doc = pn.state.curdoc
    context = doc.session_context if doc else None
    if context is None:
        action()
        return

    async def run_held(document) -> None:
        with set_curdoc(document), hold(document):
            await threads.run(partial(panel_patches.run_as_owner, document, action))

    _loop(context).add_callback(context.with_locked_document, run_held)


def execute(coroutine: Callable[[], Awaitable[None]]) -> None:
    """Await a coroutine function on the visitor's event loop; it changes the page through `dispatch` only."""
    doc = pn.state.curdoc
    context = doc.session_context if doc else None
    if context is None:
        pn.state.execute(coroutine)
        return

    async def run_for_document() -> None:
        with set_curdoc(doc):
            await coroutine()

    _loop(context).add_callback(run_for_document)


def when_loaded(act: Callable[[], None]) -> None:
    """Act, by `dispatch`, once the browser shows the page; at once where there is none."""
    doc = pn.state.curdoc
    if doc and doc.session_context:
        pn.state.onload(lambda: dispatch(act))
    else:
        act()


def _loop(context):
    return context.server_context.application_context.io_loop


class OrderedComponent(JSComponent):
    """Takes the browser's messages one after the other: on the server's threads a later one may overtake.

    `_handle_msg` runs on the event loop and only passes on: what it starts with `dispatch` keeps the order.
    """

    __abstract = True

    async def _event_coroutine(self, doc, event) -> None:
        await panel_patches.ordered_event(self, doc, event)

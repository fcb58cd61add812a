"""Without a browser dispatch is just a call; messages are heard in the order they were sent."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import panel as pn
from bokeh.document import Document
from panel.custom import JSComponent
from panel.io import document as sending
from panel.models.esm import DataEvent

from k3scope.app.page import page  # noqa: F401 - all components
from k3scope.app.page.dock import dock  # noqa: F401
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.lab import components  # noqa: F401


def test_without_a_document_it_is_done_at_once():
    done = []
    dispatch(lambda: done.append(1))
    assert done == [1]


def test_messages_are_heard_in_order_even_when_the_server_has_threads(monkeypatch):
    heard = []

    class Ear(OrderedComponent):
        _esm = "export const render = () => {}"

        def _handle_msg(self, data):
            heard.append((data, threading.get_ident()))

    async def send(ear: Ear, document: Document) -> None:
        for n in range(50):
            await ear._event_coroutine(document, DataEvent(model=None, data=n))

    with ThreadPoolExecutor(4) as pool:
        monkeypatch.setattr(type(pn.state), "_thread_pool", pool)
        asyncio.run(send(Ear(), Document()))
    assert heard == [(n, threading.get_ident()) for n in range(50)]


def test_every_component_of_the_page_hears_in_order():
    def below(cls: type) -> set[type]:
        return {cls}.union(*map(below, cls.__subclasses__()))

    ours = {cls for cls in below(JSComponent) if cls.__module__.startswith("k3scope.")}
    assert {cls.__name__ for cls in ours} >= {"Dock", "Controls", "Shell", "PlotHead"}
    assert {cls.__name__ for cls in ours if not issubclass(cls, OrderedComponent)} == set()


class Wire:
    """A connection to a browser that takes its time."""

    def __init__(self):
        self._socket = self.protocol = self
        self.sent, self.written = [], []

    def create(self, _kind: str, events: list) -> str:
        return events[0]

    def take(self, _connection, msg: str) -> list[asyncio.Future]:
        self.sent.append(msg)
        self.written.append(asyncio.get_running_loop().create_future())
        return self.written[-1:]


def test_a_message_that_comes_when_the_one_before_has_just_been_written_is_sent(monkeypatch):
    async def send(wire: Wire, document: Document) -> None:
        sending.schedule_write_events(document, [wire], ["first"])
        await asyncio.sleep(0)
        wire.written[0].set_result(None)
        sending.schedule_write_events(document, [wire], ["second"])
        await asyncio.sleep(0.01)

    wire = Wire()
    monkeypatch.setitem(sending.extra_socket_handlers, Wire, wire.take)
    asyncio.run(send(wire, Document()))
    assert wire.sent == ["first", "second"]

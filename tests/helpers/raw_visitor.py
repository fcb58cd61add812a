"""A visitor over HTTP and Bokeh's websocket protocol, without a browser: cheap enough for 200 at once.

It sends what the page's scripts send, and reads what the server tells them. Names of components are those
of the classes in app/page/.
"""

import asyncio
import base64
import json
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bokeh.protocol import Protocol
from bokeh.protocol.receiver import Receiver
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient
from tornado.websocket import websocket_connect

TOKEN = re.compile(r'"token":"([^"]+)"')
PIECE = 3 * 2**18  # bytes of a file in one message: 1 MB in base64, and no piece ends in padding but the last
CLIENTS = 1000  # requests at once
PATIENCE = 60  # seconds


class NoPage(Exception):
    """The server answered a link with something else than the page."""

    def __init__(self, status: int, body: str):
        super().__init__(f"HTTP {status}: {body[-300:]}")
        self.status = status


class Refused(Exception):
    """A run that did not start or failed; the sentence that the page shows."""


@dataclass
class Component:
    """One component of the page: the ids of its model and of the model that holds its values."""

    model: str
    data: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A value that the server has set, or with the attribute "message" one that it has sent."""

    at: float  # time.perf_counter
    component: str
    attribute: str
    value: Any


def encode(value: Any) -> Any:
    """As Bokeh's serialisation writes it."""
    if isinstance(value, dict):
        return {"type": "map", "entries": [[key, encode(item)] for key, item in value.items()]}
    return [encode(item) for item in value] if isinstance(value, list | tuple) else value


def decode(value: Any) -> Any:
    """What was encoded; kinds that no test asks for stay as they are."""
    if isinstance(value, dict) and value.get("type") == "map":
        return {key: decode(item) for key, item in value.get("entries", ())}
    return [decode(item) for item in value] if isinstance(value, list) else value


class RawVisitor:
    """Opens the page, sends messages, waits for what they change."""

    def __init__(self, address: str):
        """`address` as the server prints it: http://localhost:5006/"""
        self.address = address.rstrip("/")
        self.components: dict[str, list[Component]] = defaultdict(list)
        self.changes: list[Change] = []
        self.errors: list[str] = []  # ERROR messages of the server
        self._socket = None
        self.closed: str | None = None  # why the connection ended, when it has
        self._class_of: dict[str, tuple[str, Component]] = {}  # by id of either model
        self._replies: dict[str, asyncio.Future] = {}
        self._news, self._accepted = asyncio.Event(), False

    async def open(self, query: str = "", timeout: float = PATIENCE) -> "RawVisitor":
        """Load the page of a link such as "?view=lab" and connect. NoPage for any other answer."""
        client = SimpleAsyncHTTPClient(force_instance=True, max_clients=CLIENTS)
        request = HTTPRequest(f"{self.address}/{query}", request_timeout=timeout, connect_timeout=timeout)
        page = await client.fetch(request, raise_error=False)
        client.close()
        body = (page.body or b"").decode(errors="replace")
        if (token := TOKEN.search(body)) is None:
            raise NoPage(page.code, body)
        await asyncio.wait_for(self._connect(token[1], timeout), timeout)
        return self

    async def _connect(self, token: str, timeout: float) -> None:
        origin = re.match(r"https?://[^/]+", self.address)[0]
        request = HTTPRequest(
            self.address.replace("http", "ws", 1) + "/ws", headers={"Origin": origin}, request_timeout=timeout
        )
        self._socket = await websocket_connect(request, subprotocols=["bokeh", token], max_message_size=2**30)
        self._reader = asyncio.create_task(self._read())
        await self.until(lambda: self._accepted, timeout)  # the server takes nothing before its ACK
        self._index(await self._ask("PULL-DOC-REQ", {}, timeout))
        await self._event({"type": "event", "name": "document_ready", "values": encode({})}, timeout)

    async def send(self, cls: str, data: Any, n: int = 0, timeout: float = 0) -> None:
        """What `model.send_msg(data)` does in the n-th of a class; with a timeout it waits for the reply."""
        values = {"model": {"id": self.components[cls][n].model}, "data": encode(data)}
        event = {"type": "map", "entries": [list(item) for item in values.items()]}
        await self._event({"type": "event", "name": "data_event", "values": event}, timeout)

    async def set(self, cls: str, attribute: str, value: Any, n: int = 0, timeout: float = 0) -> None:
        """What `model.attribute = value` does there."""
        model = {"id": self.components[cls][n].data}
        change = {"kind": "ModelChanged", "model": model, "attr": attribute, "new": encode(value)}
        await self._patch(change, timeout)

    def last(self, cls: str, n: int = 0) -> dict[str, Any]:
        """The values that a component has now; {} for one that is not there."""
        return self.components[cls][n].values if len(self.components[cls]) > n else {}

    def sent(self, cls: str) -> list[Any]:
        """Messages that the server has sent to the components of a class."""
        return [c.value for c in self.changes if c.component == cls and c.attribute == "message"]

    def since(self, mark: int, cls: str, attribute: str) -> list[Any]:
        """Values of an attribute that came after `mark = len(visitor.changes)`."""
        return [c.value for c in self.changes[mark:] if (c.component, c.attribute) == (cls, attribute)]

    async def until(self, test: Callable[[], Any], timeout: float = PATIENCE) -> None:
        """Wait for what the server sends. TimeoutError, or ConnectionError when it has hung up."""
        end = time.perf_counter() + timeout
        while not test():
            if self.closed:
                raise ConnectionError(self.closed)
            await asyncio.wait_for(self._news.wait(), max(end - time.perf_counter(), 0))

    async def click(self, go: str, timeout: float = PATIENCE) -> float:
        """A click on `data-go`, which must change the link: seconds until the address has answered."""
        mark, start = len(self.changes), time.perf_counter()
        await self.send("Shell", {"go": go})
        await self.until(lambda: self.since(mark, "BrowserHistory", "entry"), timeout)
        return time.perf_counter() - start

    async def run(self, model: str, prompt: str, timeout: float = PATIENCE) -> float:
        """Press Run: seconds until the result is there. Refused with the page's sentence when none comes."""
        mark, start = len(self.changes), time.perf_counter()
        await self.send("Dock", {"type": "run", "model": model, "prompt": prompt})
        await self.finished(mark, timeout)
        return time.perf_counter() - start

    async def generate(self, count: int, timeout: float = PATIENCE) -> tuple[float, float]:
        """Greedy tokens in the Lab after the run on show: seconds to the first, and until all are there."""
        await self.until(lambda: self.components["TokenStrip"], timeout)
        mark, start = len(self.changes), time.perf_counter()
        await self.send("TokenStrip", {"generate": count, "temperature": 0, "seed": 0})
        await self.until(lambda: self._sampled(mark) or self._ended(mark), timeout)
        first = time.perf_counter() - start
        await self.finished(mark, timeout)
        return first, time.perf_counter() - start

    async def finished(self, mark: int, timeout: float = PATIENCE) -> None:
        """Wait until the run that was started after `mark` is there. Refused when it failed."""
        await self.until(lambda: self._ended(mark), timeout)
        problems = list(filter(None, self.since(mark, "Dock", "problem")))
        if problems and not self.since(mark, "Dock", "result"):
            raise Refused(problems[-1])

    def _sampled(self, mark: int) -> bool:
        return any(p.get("done") for p in self.since(mark, "Dock", "progress"))

    def _ended(self, mark: int) -> bool:
        busy = self.since(mark, "Dock", "busy")
        refused = not busy and any(self.since(mark, "Dock", "problem"))
        return refused or (bool(busy) and not busy[-1])

    async def attach(self, name: str, data: bytes, whole: bool = False, timeout: float = PATIENCE) -> None:
        """Attach a file, in parts of 1 MB or, for a server that knows none, whole; until it has arrived."""
        mark, step = len(self.changes), len(data) + 1 if whole else PIECE
        pieces = [data[at : at + step] for at in range(0, len(data), step)] or [b""]
        for part, piece in enumerate(pieces):
            message = {"type": "attach", "name": name, "data": base64.b64encode(piece).decode()}
            await self.send("Dock", message | ({"part": part, "of": len(pieces)} if len(pieces) > 1 else {}))
        await self.until(lambda: self.since(mark, "Dock", "received"), timeout)

    def close(self) -> None:
        if self._socket is not None:  # else it never got a page
            self._socket.close()
            self._reader.cancel()

    async def _event(self, event: dict, timeout: float) -> None:
        await self._patch({"kind": "MessageSent", "msg_type": "bokeh_event", "msg_data": event}, timeout)

    async def _patch(self, event: dict, timeout: float) -> None:
        if timeout:
            await self._ask("PATCH-DOC", {"events": [event]}, timeout)
        else:
            await self._write("PATCH-DOC", {"events": [event]}, uuid.uuid4().hex)

    async def _ask(self, kind: str, content: dict, timeout: float) -> Any:
        message = uuid.uuid4().hex
        reply = self._replies[message] = asyncio.get_running_loop().create_future()
        await self._write(kind, content, message)
        return await asyncio.wait_for(reply, timeout)

    async def _write(self, kind: str, content: dict, message: str) -> None:
        # all at once: fragments of two messages may not mix
        fragments = [json.dumps(part) for part in ({"msgid": message, "msgtype": kind}, {}, content)]
        await asyncio.gather(*[self._socket.write_message(fragment) for fragment in fragments])

    async def _read(self) -> None:
        receiver = Receiver(Protocol())
        while (fragment := await self._socket.read_message()) is not None:
            message = await receiver.consume(fragment)
            if message is not None:
                self._take(message.header, message.content)
                self._tell()
        self.closed = f"closed {self._socket.close_code} {self._socket.close_reason or ''}".strip()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(ConnectionError(self.closed))
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _take(self, header: dict, content: Any) -> None:
        self._accepted |= header["msgtype"] == "ACK"
        if header["msgtype"] == "ERROR":
            self.errors.append(json.dumps(content))
        for event in content.get("events", ()) if header["msgtype"] == "PATCH-DOC" else ():
            self._take_event(event)
        reply = self._replies.pop(header.get("reqid"), None)
        if reply is not None and not reply.done():
            reply.set_result(content)

    def _take_event(self, event: dict) -> None:
        self._index(event)  # a change may bring components: the Lab's come with the first result
        if event.get("kind") == "ModelChanged":
            owner, attribute, value = event["model"]["id"], event["attr"], event["new"]
        elif event.get("msg_type") == "bokeh_event":
            values = decode(event["msg_data"].get("values", {}))
            owner, attribute, value = values.get("model", {}).get("id"), "message", values.get("data")
        else:
            return
        if owner in self._class_of:
            cls, component = self._class_of[owner]
            component.values[attribute] = value = decode(value)
            self.changes.append(Change(time.perf_counter(), cls, attribute, value))

    def _index(self, content: Any) -> None:
        """Note every component of ours that a message brings."""
        if isinstance(content, list):
            for item in content:
                self._index(item)
        elif isinstance(content, dict):
            attributes = content.get("attributes")
            if isinstance(attributes, dict) and "esm" in attributes and "id" in content:
                self._add(content["id"], attributes)
            else:
                for item in content.values():
                    self._index(item)

    def _add(self, model: str, attributes: dict) -> None:
        data = attributes.get("data", {})
        values = {name: decode(value) for name, value in data.get("attributes", {}).items()}
        component, cls = Component(model, data.get("id", ""), values), attributes["class_name"]
        self.components[cls].append(component)
        self._class_of |= {model: (cls, component), component.data: (cls, component)}

"""What the helpers measure is what was done."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time

import pytest
from click_stream import ClickStream, quantile
from machine_lag import MachineLag
from raw_visitor import PIECE, Change, RawVisitor, decode, encode
from server_process import Watch

from k3scope.app.page.process_cost import process_tree

pytestmark = pytest.mark.slow

CHILD = "import time; block = bytearray(60 << 20); time.sleep(30)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_the_memory_of_a_tree_counts_its_children():
    with subprocess.Popen([sys.executable, "-c", PARENT]) as parent:
        with Watch(parent.pid, every_s=0.02) as cost:
            time.sleep(1.5)
        processes = process_tree(parent.pid)
        for process in processes:
            os.kill(process, signal.SIGTERM)
    assert len(processes) == 2
    assert cost.added_mb > 60
    assert cost.cpu_s > 0


def test_a_machine_that_does_nothing_else_is_hardly_late():
    with MachineLag() as lag:
        time.sleep(1)
    assert len(lag.waits) > 3
    assert min(lag.waits) >= 0


@pytest.mark.parametrize("value", [{"type": "run", "list": [1, {"a": None}]}, "text", [], {}, 3.5])
def test_what_is_encoded_for_bokeh_is_decoded_again(value):
    assert decode(encode(value)) == value


class Listener(RawVisitor):
    """Hears what would be sent, and takes every file as arrived."""

    def __init__(self):
        super().__init__("http://localhost:1")
        self.messages: list[dict] = []

    async def send(self, cls, data, n=0, timeout=0) -> None:
        self.messages.append(data)
        self.changes.append(Change(0, cls, "received", 1))


@pytest.mark.parametrize(("size", "parts"), [(0, 1), (PIECE, 1), (PIECE + 1, 2), (3 * PIECE, 3)])
def test_a_large_file_travels_in_parts_of_a_megabyte(size, parts):
    data, heard = bytes(range(256)) * (size // 256) + b"x" * (size % 256), Listener()
    asyncio.run(heard.attach("a.png", data))
    assert b"".join(base64.b64decode(message["data"]) for message in heard.messages) == data
    assert max(len(message["data"]) for message in heard.messages) <= 2**20
    assert [(m.get("part", 0), m.get("of", 1)) for m in heard.messages] == [(n, parts) for n in range(parts)]


def test_a_file_for_a_server_without_parts_travels_whole():
    heard = Listener()
    asyncio.run(heard.attach("a.png", b"x" * 3 * PIECE, whole=True))
    (message,) = heard.messages
    assert len(base64.b64decode(message["data"])) == 3 * PIECE


class SlowPage:
    """Answers all clicks at once, after a second."""

    def __init__(self):
        self.changes, self.clicks, self._entry = [], 0, {"n": 0}

    def last(self, _component: str) -> dict:
        return {"entry": self._entry}

    async def send(self, _component: str, _data: dict) -> None:
        self.clicks += 1

    async def until(self, test, _timeout: float) -> None:
        self._entry = {"n": self.clicks}
        self.changes.append(Change(time.perf_counter(), "BrowserHistory", "entry", self._entry))
        assert test()


async def wait_through_a_freeze() -> list[float]:
    async with ClickStream(SlowPage()) as clicks:
        await asyncio.sleep(1)
    return clicks.waits


def test_every_click_in_a_freeze_has_waited():
    waits = asyncio.run(wait_through_a_freeze())
    assert len(waits) >= 8
    assert quantile(waits, 1) > 0.9
    assert quantile(waits, 0.5) == pytest.approx(0.5, abs=0.3)

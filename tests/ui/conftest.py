"""A real server and a real browser; a test fails when the page errs or asks anything outside this machine."""

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

ROOT = Path(__file__).parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
START_S = 60
expect.set_options(timeout=15_000)  # CI machines are slow; what is tested here is not speed


def pytest_collection_modifyitems(items):
    """A browser on a busy machine misses a deadline now and then: what fails three times in a row fails."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args):
    chromium = os.environ.get("K3SCOPE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium on the path: browser tests may not be skipped in CI")
        pytest.skip("no chromium on the path (set K3SCOPE_CHROMIUM)")
    return {**browser_type_launch_args, "executable_path": chromium, "args": FLAGS}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    return {**browser_context_args, "viewport": {"width": 1440, "height": 900}}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def url(base_url, tmp_path_factory):
    """Address of the page: a server of our own, or the one named by --base-url."""
    if base_url:
        yield base_url
        return
    with _served(tmp_path_factory.mktemp("store")) as server:
        yield server.address


@dataclass
class Server:
    """A server of our own, to be stopped and started again on the same port and store."""

    folder: Path
    options: tuple[str, ...]
    port: int
    at: str = ""  # path that the page is under
    process: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        return f"http://localhost:{self.port}/{self.at}"

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text()

    def start(self) -> None:
        store = str(self.folder / "runs.sqlite")
        command = [
            sys.executable,
            "-m",
            "k3scope",
            "serve",
            "--no-open",
            "--port",
            str(self.port),
            "--store",
            store,
        ]
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                [*command, *self.options], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT
            )
        wait_for(self)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture(scope="session")
def served():
    """Start a server of a test's own: `with served(folder, "--prefix=/k3") as server`."""
    return _served


@contextmanager
def _served(folder: Path, *options: str, at: str = ""):
    """A server with `options`, which keeps its runs and its log in `folder`."""
    server = Server(folder, options, free_port(), at)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def wait_for(server: Server) -> None:
    """Until the server answers. RuntimeError with its output when it does not."""
    for _ in range(START_S * 10):
        if server.process.poll() is not None:
            break
        try:
            urlopen(server.address, timeout=20).close()
            return
        except (URLError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError(f"the server did not start:\n{server.log[-4000:]}")


@pytest.fixture
def phone(browser):
    """A context of a phone's size, with touch."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    yield context
    context.close()


class Guard:
    """Hears every request and every error of the pages it watches."""

    def __init__(self):
        self.outside: set[str] = set()
        self.errors: list[str] = []

    def watch(self, page):
        page.on("request", lambda request: self._check(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        # some requests show only in the browser's own log: beacons, blocked ones
        devtools = page.context.new_cdp_session(page)
        devtools.on("Log.entryAdded", lambda event: self._check(event["entry"].get("url") or ""))
        devtools.send("Log.enable")
        return page

    def _check(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in (
            "localhost",
            "127.0.0.1",
        ):
            self.outside.add(address)


@pytest.fixture(autouse=True)
def guard(request):
    """Fail a browser test on any request that leaves this machine and on any error of the page."""
    if "url" not in request.fixturenames:
        yield None
        return
    heard = Guard()
    yield heard
    assert not heard.outside
    assert not heard.errors


@pytest.fixture
def visit(guard, context, url):
    """Open a link in a page of its own and wait until it is alive."""

    def open_(search: str = "", in_context=context):
        page = guard.watch(in_context.new_page())
        page.goto(url + search)
        page.wait_for_selector("html.live")
        return page

    return open_

"""A real server and a real browser; a test fails when the page errs or asks anything outside this machine."""

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import server_process
from playwright.sync_api import expect

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
]
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


@pytest.fixture(scope="session")
def url(base_url, tmp_path_factory):
    """Address of the page: a server of our own, or the one named by --base-url."""
    if base_url:
        yield base_url
        return
    with server_process.served(tmp_path_factory.mktemp("store")) as server:
        yield server.address


@pytest.fixture(scope="session")
def served():
    """Start a server of a test's own: `with served(folder, "--prefix=/k3") as server`."""
    return server_process.served


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

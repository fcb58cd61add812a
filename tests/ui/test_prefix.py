"""Behind a reverse proxy that serves the page under a path: `serve --prefix /k3`."""

import asyncio
import json
import re
import threading
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect
from tornado.httpclient import AsyncHTTPClient, HTTPRequest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler, websocket_connect

from k3scope.app.model_cards import address
from k3scope.model.presets import TRAINED

OWN = {"Connection", "Content-Length", "Content-Encoding", "Transfer-Encoding"}


class Forward(RequestHandler):
    """What a proxy does: the same request to the server behind it, by its full path."""

    async def get(self):
        to = self.settings["behind"] + self.request.uri
        request = HTTPRequest(to, headers=self.request.headers, follow_redirects=False)
        answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        self.set_status(answer.code)
        self.clear_header("Content-Type")  # Tornado would say text/html
        for name, value in answer.headers.get_all():
            if name not in OWN:
                self.add_header(name, value)
        if answer.code not in (204, 304):
            self.write(answer.body)


class Bridge(WebSocketHandler):
    """Both ways of a websocket."""

    def check_origin(self, _origin):
        return True

    def select_subprotocol(self, names):
        self.names = names
        return names[0] if names else None

    async def open(self):
        to = self.settings["behind"].replace("http", "ws", 1) + self.request.uri
        self.other = await websocket_connect(to, subprotocols=self.names, max_message_size=2**25)
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self):
        while (message := await self.other.read_message()) is not None:
            await self.write_message(message, isinstance(message, bytes))
        self.close()

    async def on_message(self, message):
        await self.other.write_message(message, isinstance(message, bytes))

    def on_close(self):
        self.other.close()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory, served):
    """Address of the page behind a proxy that knows nothing outside /k3."""
    (listening,) = bind_sockets(0, "127.0.0.1")
    port = listening.getsockname()[1]
    options = ("--prefix", "/k3", "--allow-origin", f"localhost:{port}")
    with served(tmp_path_factory.mktemp("prefix"), *options, at="k3/") as server:
        behind = f"http://127.0.0.1:{server.port}"
        with running(behind, listening):
            yield f"http://localhost:{port}/k3/"


@contextmanager
def running(behind: str, listening):
    """The proxy in a thread of its own: the main one has the browser's event loop."""
    ready, over = threading.Event(), []

    async def serve():
        done = asyncio.Event()
        over.append((asyncio.get_running_loop(), done))
        routes = [(r"/k3/ws", Bridge), (r"/k3(?:/.*)?", Forward)]
        HTTPServer(Application(routes, behind=behind)).add_sockets([listening])
        ready.set()
        await done.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield
    finally:
        loop, done = over[0]
        loop.call_soon_threadsafe(done.set)
        thread.join()


@pytest.fixture(scope="module")
def url(proxy):
    return proxy


def test_nothing_is_asked_for_outside_the_path_and_nothing_is_missing(context, guard, url):
    page, answers = guard.watch(context.new_page()), []
    page.on("response", lambda response: answers.append((response.status, response.url)))
    page.goto(url)
    page.wait_for_selector("html.live")  # the websocket is there
    page.get_by_role("textbox", name="Prompt").fill("behind a proxy")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_test_id("run-status")).to_contain_text(" ms · ", timeout=60_000)
    page.get_by_role("tab", name="Lab").click()
    expect(page.get_by_role("tabpanel", name="Lab").locator("canvas").first).to_be_visible(timeout=60_000)
    assert len(answers) > 3
    assert not [answer for answer in answers if answer[0] >= 400]
    asked = [urlsplit(address) for _, address in answers]
    assert not [parts.path for parts in asked if parts.scheme == "http" and not parts.path.startswith("/k3/")]
    icon = page.locator("link[rel=icon]").get_attribute("href")
    assert icon.startswith(("data:", "/k3/", "./"))


def test_links_keep_the_path(visit, context, url):
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit("?select=kda")
    page.get_by_role("button", name="Share").click()
    expect(page).to_have_url(re.compile(re.escape(url)))
    assert page.evaluate("navigator.clipboard.readText()").startswith(url + "?")
    page.get_by_role("tab", name="Ledger").click()
    expect(page).to_have_url(f"{url}?view=ledger&select=kda&v=1")
    page.go_back()
    expect(page).to_have_url(f"{url}?select=kda")


def test_the_path_without_its_slash_leads_to_the_page(context, guard, url):
    page = guard.watch(context.new_page())
    page.goto(url.removesuffix("/") + "?select=kda")
    page.wait_for_selector("html.live")
    expect(page).to_have_url(url + "?select=kda")


def test_the_cards_of_the_models_are_under_the_path(url):
    for name in TRAINED:
        with urlopen(url + address(name)) as answer:
            assert f"<h1>{name}</h1>" in answer.read().decode()


def test_liveness_tells_everybody_only_that_the_server_is_alive(url):
    with urlopen(url + "liveness") as answer:
        assert answer.headers["Content-Type"].startswith("application/json")
        assert json.load(answer) == {"alive": True}

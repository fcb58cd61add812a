"""The drawing alone, in a frame of a page that comes from elsewhere."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

import pytest
from playwright.sync_api import expect

from k3scope.app.page.server import allowed_origins


class Elsewhere(BaseHTTPRequestHandler):
    """Another site, whose one page puts the address after the question mark into a frame."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        framed = unquote(self.path.partition("?")[2])
        icon = '<link rel="icon" href="data:,">'
        page = f'{icon}<h1>Elsewhere</h1><iframe src="{framed}" width="900" height="600"></iframe>'
        self.wfile.write(page.encode())

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def elsewhere():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def framed(guard, context, url, elsewhere):
    """Another origin's page with a link of ours in a frame, and that frame."""

    def open_(search: str):
        page = guard.watch(context.new_page())
        page.goto(f"{elsewhere}?{quote(url + search)}")
        frame = page.frame_locator("iframe")
        frame.locator("html.live").wait_for(state="attached")
        return page, frame

    return open_


def test_a_frame_shows_the_drawing_and_nothing_else(framed):
    _, frame = framed("?layer=43&embed=1")
    expect(frame.get_by_role("treeitem", name=re.compile("^Gated MLA"))).to_be_visible()
    for gone in ("#top", "#dock", "#inspector", "#strip"):
        expect(frame.locator(gone)).to_be_hidden()


def test_the_link_out_of_a_frame_keeps_what_was_done_in_it(framed, url):
    page, frame = framed("?layer=43&embed=1")
    frame.get_by_role("treeitem", name=re.compile("^Attention RMSNorm")).click()
    inner = page.frames[1]
    inner.wait_for_function("location.search.includes('select=attn_norm')")
    assert "embed=1" in inner.url
    way = frame.get_by_role("link", name="Open in k3scope")
    way.hover()
    parts = urlsplit(way.evaluate("link => link.href"))
    assert parts.netloc == urlsplit(url).netloc
    assert set(parts.query.split("&")) == {"select=attn_norm", "layer=43", "v=1"}


def test_clicks_in_a_frame_leave_the_history_of_the_page_around_it_alone(framed):
    page, frame = framed("?embed=1")
    before = page.evaluate("history.length")
    frame.get_by_role("treeitem", name=re.compile("^Token embedding")).click()
    page.frames[1].wait_for_function("location.search.includes('select=token_embedding')")
    assert page.evaluate("history.length") == before


def test_a_named_origin_comes_beside_this_machine():
    assert allowed_origins([], 5006) is None
    assert allowed_origins(["docs.example"], 5006) == ["docs.example", "localhost:5006", "127.0.0.1:5006"]

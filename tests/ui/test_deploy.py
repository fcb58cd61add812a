"""The page through nginx and HAProxy as docs/deploy has them: https, under a path, with limits."""

import itertools
import re
import ssl
import time
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from urllib.parse import urlsplit

import deployment
import pytest
from playwright.sync_api import expect
from server_process import Server, free_port

pytestmark = pytest.mark.sweep

LONG_LINK = "?select=kda&note=" + "a" * 7980  # "GET /k3/" and "HTTP/1.1" around it: a request line of 8 KB
LONG_BODY = 17_000  # bytes
SILENT_S = 15  # a proxy that gives up after 10 s has then cut the websocket
LONG_SILENT_S = 125  # longer than any time-out of the files, and three pings


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    """Nobody has signed the certificate."""
    return {**browser_context_args, "ignore_https_errors": True}


@contextmanager
def behind(proxy: str, folder, served, **more: str):
    """Address of the page behind a proxy of its own."""
    plain, tls = free_port(), free_port()
    options = ("--host", "127.0.0.1", "--prefix", "/k3", "--allow-origin", f"localhost:{tls}")
    with served(folder, *options, at="k3/") as server:
        deployment.certificate(folder)
        command = deployment.PROXIES[proxy](folder, plain, tls, server.port, **more)
        with deployment.running(command, plain, folder / "proxy.log"):
            yield f"https://localhost:{tls}/k3/"


@pytest.fixture(scope="module", params=list(deployment.PROXIES))
def url(request, tmp_path_factory, served):
    with behind(request.param, tmp_path_factory.mktemp(request.param), served) as address:
        yield address


def listen(page) -> list[str]:
    """What goes wrong from now on: errors in the console, websockets that end, answers that are none."""
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: line.type == "error" and wrong.append(line.text))
    page.on("websocket", lambda socket: socket.on("close", lambda _: wrong.append("websocket closed")))
    page.on("response", lambda got: got.status >= 400 and wrong.append(f"{got.status} {got.url[:80]}"))
    return wrong


def opened(context, guard, address: str):
    """A live page, and what goes wrong there."""
    page = context.new_page()
    if guard:  # it is there where the address is the fixture's
        guard.watch(page)
    wrong = listen(page)
    page.goto(address)
    page.wait_for_selector("html.live")
    return page, wrong


def select(page, name: str) -> None:
    page.get_by_role("treeitem", name=re.compile(f"^{name}")).click()


def test_the_page_opens_a_click_changes_the_address_and_a_prompt_runs(context, guard, url):
    page, wrong = opened(context, guard, url)
    select(page, "Token embedding")
    expect(page).to_have_url(re.compile(re.escape(url) + r"\?select=token_embedding"))
    page.get_by_role("textbox", name="Prompt").fill("behind a proxy")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_test_id("run-status")).to_contain_text(" ms · ", timeout=60_000)
    assert wrong == []


@pytest.mark.parametrize("seconds", [SILENT_S, LONG_SILENT_S])
def test_a_visitor_may_be_silent_for_longer_than_any_time_out(context, guard, url, seconds):
    page, wrong = opened(context, guard, url)
    page.wait_for_timeout(seconds * 1000)
    select(page, "Token embedding")
    expect(page.get_by_test_id("subject")).to_contain_text("Token embedding")
    assert wrong == []


def test_a_time_out_below_the_ping_cuts_the_websocket(context, tmp_path, served):
    """What the test above would see."""
    short = {"proxy_read_timeout 120s": "proxy_read_timeout 10s"}
    with behind("nginx", tmp_path, served, **short) as address:
        page, wrong = opened(context, None, address)
        page.wait_for_timeout(SILENT_S * 1000)
        assert "websocket closed" in wrong


def test_a_link_of_8_kb_passes_with_all_that_its_page_loads(context, guard, url):
    page, wrong = opened(context, guard, url + LONG_LINK)
    expect(page.get_by_test_id("subject")).to_have_text("Kimi Delta Attention")
    assert wrong == []


def answer(address: str, announced: int = 0):
    """Status and headers of an answer; to a request that announces a body, before any of it is sent."""
    parts = urlsplit(address)
    connection = HTTPSConnection(parts.netloc, timeout=30, context=ssl._create_unverified_context())
    connection.putrequest("POST" if announced else "GET", parts.path, skip_accept_encoding=True)
    connection.putheader("Accept-Encoding", "gzip")
    if announced:
        connection.putheader("Content-Length", str(announced))
    connection.endheaders()
    with closing(connection), connection.getresponse() as got:
        return got.status, got.headers


def test_a_body_over_the_limit_is_refused_before_it_is_sent(url):
    assert answer(url, announced=LONG_BODY)[0] == 413


def test_the_answer_is_compressed_and_stays_with_https(url):
    status, headers = answer(url)
    assert status == 200
    assert headers["Content-Encoding"] == "gzip"
    assert headers["Strict-Transport-Security"] == "max-age=31536000"


@pytest.mark.parametrize("path", ["", "metrics", "../", "../k30/", "../liveness"])
def test_nothing_but_the_page_is_passed_on(url, path):
    assert answer(url + path)[0] == (404 if path else 200)


def test_the_path_without_its_slash_leads_to_the_page(context, guard, url):
    page, wrong = opened(context, guard, url.removesuffix("/") + "?select=kda")
    expect(page).to_have_url(url + "?select=kda")
    assert wrong == []


@pytest.mark.sweep
@pytest.mark.parametrize("proxy", deployment.PROXIES)
def test_two_servers_over_one_store_keep_a_page_where_it_is_from(proxy, browser, tmp_path, served):
    second = Server(tmp_path / "second", at="k3/")
    second.folder.mkdir()
    more = deployment.SEVERAL[proxy] | {"127.0.0.1:5007": f"127.0.0.1:{second.port}"}
    with behind(proxy, tmp_path, served, **more) as address:
        second.options = ("--prefix", "/k3", "--allow-origin", urlsplit(address).netloc)
        second.options += ("--store", str(tmp_path / "runs.sqlite"))
        second.start()
        try:
            servers, end = set(), time.monotonic() + 40  # HAProxy asks a server every 5 s whether it is there
            for visits in itertools.count(1):
                servers.add(_server_of_a_visitor(browser, address))
                if (visits >= 4 and len(servers) > 1) or (visits >= 8 and time.monotonic() > end):
                    break
        finally:
            second.stop()
    assert servers == ({"one", "two"} if proxy == "haproxy" else {None})


def _server_of_a_visitor(browser, address: str) -> str | None:
    """The server that the cookie names, after a visit in which a click was answered."""
    context = browser.new_context(ignore_https_errors=True)
    page, wrong = opened(context, None, address)
    select(page, "Token embedding")
    expect(page.get_by_test_id("subject")).to_contain_text("Token embedding")
    cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies()}
    context.close()
    assert [line for line in wrong if line != "websocket closed"] == []
    return cookies.get("K3SCOPE")

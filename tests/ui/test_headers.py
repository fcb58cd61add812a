"""The content security policy in a browser, where every view works under it; headers of every answer."""

import http.client
import re

import pytest
from playwright.sync_api import expect

from k3scope.app.model_cards import address
from k3scope.app.page.http_headers import HEADERS
from k3scope.model.presets import TRAINED

LISTEN = """
window.violations = []
document.addEventListener("securitypolicyviolation",
  (e) => window.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`))
"""
LINKS = (
    "",
    "?view=ledger",
    "?view=cost",
    "?view=compare&compare=k3-tiny",
    "?open=everything",
    "?tab=code&select=kda",
)


@pytest.fixture
def watched(visit, context):
    """A link's page, with what the console and the policy complain of."""
    complaints = []
    context.add_init_script(LISTEN)

    def open_(search: str):
        context.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        return visit(search)

    return open_, complaints


def violations(page) -> list[str]:
    return page.evaluate("window.violations")


@pytest.mark.parametrize("search", LINKS)
def test_a_view_breaks_no_policy(watched, search):
    open_, complaints = watched
    page = open_(search)
    page.wait_for_timeout(500)
    assert violations(page) == []
    assert complaints == []


def test_a_run_and_its_lab_break_no_policy(watched):
    open_, complaints = watched
    page = open_("?with=k3-random&view=lab")
    page.get_by_role("textbox", name="Prompt").fill("the policy of this page")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_test_id("run-status")).to_contain_text("tokens", timeout=60_000)
    for view in ("memory", "experts", "attention"):
        page.evaluate("view => document.querySelector(`[data-go^='lab=${view}']`)?.click()", view)
        page.wait_for_timeout(400)
    assert violations(page) == []
    assert complaints == []


@pytest.mark.parametrize("name", TRAINED)
def test_a_card_breaks_no_policy(context, url, name):
    context.add_init_script(LISTEN)
    page = context.new_page()
    page.emulate_media(color_scheme="dark")
    page.goto(url + address(name))
    expect(page.locator("html")).to_have_class(re.compile("dark"))  # the inline script ran
    assert violations(page) == []


def test_a_script_that_is_not_ours_does_not_run(watched):
    open_, complaints = watched
    page = open_("")
    page.evaluate(
        """() => {
            const script = document.createElement("script")
            script.textContent = "window.ran = 1"
            document.body.append(script)
            document.body.insertAdjacentHTML("beforeend", `<img src="data:," onerror="window.ran = 2">`)
        }"""
    )
    page.wait_for_timeout(300)
    assert page.evaluate("window.ran") is None
    assert len(violations(page)) == 2
    complaints.clear()


def answer(url: str, path: str, method: str = "GET", headers: dict | None = None):
    host = re.match(r"http://([^/]+)", url)[1]
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request(method, path, headers=headers or {})
    reply = connection.getresponse()
    return reply, reply.read().decode(errors="replace")


@pytest.mark.parametrize(
    "path",
    ["/", "/liveness", "/static/js/bokeh.min.js", "/cards/k3-tiny/README.md", "/favicon.ico", "/nope", "/ws"],
)
def test_every_answer_has_the_headers(url, path):
    reply, body = answer(url, path)
    assert {name: reply.headers[name] for name in HEADERS} == HEADERS
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert reply.headers["X-Script-Nonce"] is None
    assert "Traceback" not in body


def test_the_nonce_is_another_in_every_answer(url):
    nonces = {
        re.search(r"'nonce-([^']+)'", answer(url, "/")[0].headers["Content-Security-Policy"])[1] for _ in "ab"
    }
    assert len(nonces) == 2


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/nope", "GET", 404), ("/", "POST", 405), ("/ws", "GET", 400)]
)
def test_an_error_is_a_short_page_with_a_sentence(url, path, method, status):
    reply, body = answer(url, path, method)
    assert reply.status == status
    assert f"<h1>{status}: " in body
    assert "." in body.partition("<p>")[2]


def test_who_may_embed_the_page_is_an_option(served, tmp_path):
    with served(tmp_path, "--frame-ancestors=self", "--frame-ancestors=www.example.org") as server:
        reply, _ = answer(server.address, "/")
        assert "frame-ancestors 'self' www.example.org" in reply.headers["Content-Security-Policy"]

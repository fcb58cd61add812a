"""What outlives a visit and what does not: restarts, broken connections, sessions that end."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from bokeh.client import ClientSession
from bokeh.util.token import generate_session_id
from playwright.sync_api import expect

from k3scope.app.models import RUNNABLE

SESSIONS = 50


@pytest.fixture(scope="module")
def server(tmp_path_factory, served):
    with served(tmp_path_factory.mktemp("lasting")) as server:
        yield server


@pytest.fixture
def url(server):
    return server.address


def status(page):
    return page.get_by_test_id("run-status")


def test_a_run_comes_back_after_a_restart_and_in_another_browser(visit, server, browser, url):
    page = visit("?with=k3-random&select=moe_router")
    page.get_by_role("textbox", name="Prompt").fill("over a restart 123456789")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(status(page)).to_contain_text("14 tokens", timeout=60_000)
    expect(page).to_have_url(re.compile("run=[a-z2-7]{12}"))
    server.stop()
    lost = page.get_by_role("alert").filter(has_text="Connection lost")
    expect(lost).to_be_visible()
    server.start()
    lost.get_by_role("link", name="Reload").click()
    page.wait_for_selector("html.live")
    expect(status(page)).to_contain_text("14 tokens", timeout=60_000)
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value("over a restart 123456789")
    run = re.search("run=[a-z2-7]{12}", page.url)[0]
    context = browser.new_context()
    other = visit("?" + run, context)
    expect(other.get_by_role("textbox", name="Prompt")).to_have_value("over a restart 123456789")
    expect(status(other)).to_contain_text("14 tokens", timeout=60_000)
    context.close()


@pytest.mark.sweep  # a minute of waiting for sessions to end
def test_sessions_that_end_are_forgotten(server, url):
    before = server.details["visitors"]

    def come_and_go() -> int:
        socket = url.replace("http", "ws", 1) + "ws"
        sessions = [ClientSession(generate_session_id(), socket) for _ in range(SESSIONS)]
        for session in sessions:
            session.connect()
        there = server.details["visitors"]
        for session in sessions:
            session.close()
        return there

    with ThreadPoolExecutor(1) as own:  # the browser's event loop runs in the main thread
        assert own.submit(come_and_go).result() >= before + SESSIONS
    left = SESSIONS
    for _ in range(90):  # sessions are looked for every 17 s and end 15 s after their connection
        time.sleep(0.5)
        if (left := server.details["visitors"]) <= 1:
            break
    assert left <= 1  # the closure of the last one may still be on its way


def test_the_operator_reads_what_the_server_runs_on(server):
    details = server.details
    assert details["runs"] == dict.fromkeys(RUNNABLE, 0)
    assert details["kernels"].keys() == {"delta rule", "experts"}
    assert details["models"]["k3-tiny"]["runs"] == "runs here"
    assert server.metrics["k3scope_sessions"] == details["visitors"]
    assert server.metrics["k3scope_loop_lag_seconds_count"] > 10

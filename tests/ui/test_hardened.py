"""A server met by raw sockets: what its log holds of them, and what it refuses."""

import asyncio
import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from bokeh.util.token import generate_jwt_token, generate_session_id
from raw_visitor import RawVisitor
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

SECRET = "secretwords"


@pytest.fixture(scope="module")
def server(tmp_path_factory, served):
    with served(tmp_path_factory.mktemp("hardened")) as server:
        yield server


def answer(server, path: str) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("localhost", server.port, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    return response, response.read().decode(errors="replace")


def status_of(server, path: str) -> int:
    return answer(server, path)[0].status


def played(coroutine):
    """The browser's event loop may run in this thread already."""
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, coroutine).result()


def raw(server, data: bytes, wait_s: float) -> bytes:
    """What comes back until the server hangs up."""
    with socket.create_connection(("localhost", server.port), timeout=wait_s) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


@pytest.mark.parametrize(
    "query",
    [
        "prompt=" + "a" * 60_000,
        "prompt=%7B" + SECRET,
        "prompt=%5B" + SECRET,
        "prompt=%00%00&select=%00",
        "prompt=%ED%A0%80",
        "prompt=%ff%fe&model=%c3%28",
        "do=" + "%5B" * 1900,
        "bokeh-session-id=%3Cb%3E",
        "bokeh-session-id=" + "a" * 60_000,
        "layer=1&" * 4000,
        "x=" + "y" * 60_000,
        "T=" + "9" * 5000,
    ],
    ids=lambda query: query[:24],
)
def test_a_hostile_link_is_no_error_of_the_server(server, query):
    assert status_of(server, f"/?{query}") in (200, 400)
    assert SECRET not in server.log
    assert "Traceback" not in server.log


def test_the_log_holds_no_query_and_no_malformed_message(server):
    assert status_of(server, f"/nope?prompt={SECRET}") == 404

    async def send_malformed() -> None:
        visitor = await RawVisitor(server.address).open()
        await visitor._socket.write_message(f"{{{SECRET}" * 10_000)
        nested = await RawVisitor(server.address).open()
        for fragment in (json.dumps({"msgid": "x", "msgtype": "PATCH-DOC"}), "{}", "[" * 100_000):
            await nested._socket.write_message(fragment)
        unknown = await RawVisitor(server.address).open()
        await unknown._patch({"kind": "ModelChanged", "model": {"id": SECRET}, "attr": "x", "new": 1}, 0)
        await asyncio.sleep(1)
        await unknown.click("layer=5")  # its session has survived
        assert unknown.errors
        assert not [error for error in unknown.errors if "Traceback" in error or ".py" in error]
        for each in (visitor, nested, unknown):
            each.close()

    played(send_malformed())
    time.sleep(0.5)
    assert "404 GET /nope" in server.log
    assert "RecursionError" in server.log
    assert "Traceback" not in server.log
    assert '  File "' not in server.log
    assert SECRET not in server.log
    assert max(map(len, server.log.splitlines())) < 600


@pytest.mark.slow
def test_headers_that_do_not_come_end_the_connection(server):
    start = time.monotonic()
    assert raw(server, b"GET / HTTP/1.1\r\nHost: x\r\n", 30) == b""
    assert 8 < time.monotonic() - start < 20


def test_a_body_is_refused_by_its_length(server):
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    assert not raw(server, head, 30).startswith(b"HTTP/1.1 200")
    assert status_of(server, "/liveness") == 200


def test_a_link_that_is_too_long_is_answered_with_a_sentence(server):
    response, body = answer(server, "/?prompt=" + "a" * 80_000)
    assert response.status == 400
    assert "at most 16 KB" in body


@pytest.mark.slow
def test_over_the_limit_of_sessions_a_page_says_when_to_come_back(served, tmp_path):
    async def connect(server) -> str | bytes | None:
        """The first message to a websocket that names a session of its own."""
        token = generate_jwt_token(generate_session_id(signed=False), signed=False)
        address = server.address.replace("http", "ws") + "ws"
        request = HTTPRequest(address, headers={"Origin": server.address.rstrip("/")})
        websocket = await websocket_connect(request, subprotocols=["bokeh", token])
        return await asyncio.wait_for(websocket.read_message(), 60)

    # the request that waits for the server's start leaves a session too
    with served(tmp_path, "--max-sessions=2") as server:
        assert status_of(server, "/") == 200
        response, body = answer(server, "/")
        assert response.status == 503
        assert int(response.headers["Retry-After"]) > 0
        assert "as many visitors as it takes" in body
        assert played(connect(server)) is None  # closed
        assert status_of(server, "/liveness") == 200
        assert "Could not create new server session" in server.log
        assert "Traceback" not in server.log
        until = time.monotonic() + 60
        while status_of(server, "/") != 200 and time.monotonic() < until:  # pages without a websocket go
            time.sleep(1)
        assert status_of(server, "/") == 200

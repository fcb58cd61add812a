"""A server met by raw sockets: what its log holds of them, and what it refuses."""

import asyncio
import http.client
import socket
import time

import pytest
from raw_visitor import RawVisitor

SECRET = "secretwords"


@pytest.fixture(scope="module")
def server(tmp_path_factory, served):
    with served(tmp_path_factory.mktemp("hardened")) as server:
        yield server


def status_of(server, path: str) -> int:
    connection = http.client.HTTPConnection("localhost", server.port, timeout=60)
    connection.request("GET", path)
    return connection.getresponse().status


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
        await asyncio.sleep(1)
        visitor.close()

    asyncio.run(send_malformed())
    time.sleep(0.5)
    assert "404 GET /nope" in server.log
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

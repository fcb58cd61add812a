"""Whose address counts behind proxies, and how many connections there may be."""

from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from server_process import served
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

from k3scope.app.page.connections import Connections, TrustedProxies, share_of

PROXIES = TrustedProxies.parse(["10.0.0.0/8", "::1"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # nobody of ours says so
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1", "198.51.100.1"),  # the first is what the visitor wrote
        ("10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("::1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "not an address", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
    ],
)
def test_the_last_hop_that_is_not_trusted_counts(peer, forwarded, client):
    assert PROXIES.client(peer, forwarded) == client


def test_what_is_no_network_is_refused():
    with pytest.raises(ValueError, match="nonsense"):
        TrustedProxies.parse(["nonsense"])


@pytest.mark.parametrize("peer", ["10.0.0.1", "203.0.113.9"])
def test_a_session_has_the_address_of_the_connection_and_not_that_of_its_token(peer):
    class Proxy:
        """A request as Bokeh hands it on: its headers are those of the token."""

        headers = HTTPHeaders({"X-Forwarded-For": "9.9.9.9"})
        _request = HTTPServerRequest(
            start_line=RequestStartLine("GET", "/", "HTTP/1.1"),
            headers=HTTPHeaders({"Host": "x", "X-Forwarded-For": "198.51.100.1"}),
        )

    Proxy._request.remote_ip = peer
    assert PROXIES.client_address(Proxy()) == ("198.51.100.1" if peer == "10.0.0.1" else peer)


class Stream:
    """As much of a stream as is asked."""

    def __init__(self):
        self.over = False

    def closed(self) -> bool:
        return self.over


def test_one_address_has_no_more_than_its_share_and_a_proxy_all():
    connections = Connections(most=5, proxies=PROXIES, per_address=2)
    streams = [Stream() for _ in range(7)]
    assert [connections.take(s, "203.0.113.9") for s in streams[:3]] == [True, True, False]
    assert [connections.take(s, "10.0.0.1") for s in streams[3:]] == [True, True, True, False]
    assert connections.count == 5
    streams[0].over = True
    assert connections.count == 4
    assert connections.take(Stream(), "203.0.113.9")


def test_this_machine_has_no_share():
    connections = Connections(most=5, proxies=TrustedProxies(), per_address=2)
    assert [connections.take(Stream(), "127.0.0.1") for _ in range(6)] == [True] * 5 + [False]


@pytest.mark.browser
def test_a_visitor_too_many_is_asked_to_come_back(tmp_path):
    with served(tmp_path, "--max-sessions", "2") as server:
        with suppress(HTTPError):  # its start may have opened one
            for _ in range(2):
                urlopen(server.address).read()
        with pytest.raises(HTTPError) as refused:
            urlopen(server.address)
        assert (refused.value.code, refused.value.headers["Retry-After"]) == (503, "60")
        assert "as many visitors as it takes" in refused.value.read().decode()


@pytest.mark.browser
def test_a_foreign_name_that_stands_for_this_address_gets_no_websocket(tmp_path):
    """DNS rebinding: the browser takes page and server for one site, and Tornado then asks for no origin."""
    foreign = {
        "Host": "evil.example",
        "Origin": "http://evil.example",
        "Sec-Fetch-Site": "same-origin",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with served(tmp_path) as server:
        with pytest.raises(HTTPError) as refused:
            urlopen(Request(f"{server.address}ws", headers=foreign))
        assert refused.value.code == 403


@pytest.mark.parametrize(
    ("address", "share"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("a socket's path", "a socket's path"),
    ],
)
def test_of_ipv6_a_visitor_has_a_whole_network(address, share):
    assert share_of(address) == share


def test_another_address_of_the_same_network_is_no_way_around_the_limit():
    connections = Connections(most=5, proxies=PROXIES, per_address=2)
    assert [connections.take(Stream(), f"2001:db8::{i}") for i in range(3)] == [True, True, False]
    assert connections.take(Stream(), "2001:db8:0:1::1")

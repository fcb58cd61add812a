"""Who is connected: whose address counts behind proxies, and how many connections there may be."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream

from k3scope.app.runs.fair_queue import is_bounded

PER_ADDRESS = 64  # connections of one address that is no proxy of ours


@dataclass(frozen=True)
class TrustedProxies:
    """Networks of proxies whose X-Forwarded-For is believed."""

    networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> "TrustedProxies":
        """ValueError for what is no address and no network."""
        return cls(tuple(ipaddress.ip_network(text, strict=False) for text in texts))

    def trusts(self, address: str) -> bool:
        plain = _parsed(address)
        return plain is not None and any(plain in network for network in self.networks)

    def client(self, peer: str, forwarded: str = "") -> str:
        """The last hop that is no proxy of ours: what stands before it anybody may have written."""
        address = peer
        for hop in reversed([hop.strip() for hop in forwarded.split(",")]):
            if not self.trusts(address) or _parsed(hop) is None:
                break
            address = hop
        return address

    def client_address(self, request) -> str:
        """Whom a request of Bokeh's or Tornado's came from: an IPv4 address, or an IPv6 /64 network."""
        # Bokeh's own headers are those of the session's token, which a visitor may have made up
        request = getattr(request, "_request", request)
        forwarded = ",".join(request.headers.get_list("X-Forwarded-For"))
        return share_of(self.client(request.remote_ip, forwarded))


@dataclass
class Connections:
    """Counts the connections of a server, and closes those above its limits at once."""

    most: int
    proxies: TrustedProxies
    per_address: int = PER_ADDRESS
    # whose each is; closed ones leave with the next
    _open: dict[IOStream, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(not stream.closed() for stream in self._open)

    def limit(self, server: HTTPServer) -> None:
        """Look at every connection before the server does."""
        handle = server.handle_stream

        def handle_stream(stream: IOStream, address: tuple) -> None:
            if self.take(stream, str(address[0])):
                handle(stream, address)
            else:
                stream.close()

        server.handle_stream = handle_stream

    def take(self, stream: IOStream, address: str) -> bool:
        """Count a connection; False when there are too many, in all or of its address."""
        self._open = {other: its for other, its in self._open.items() if not other.closed()}
        share = share_of(address)
        own = sum(its == share for its in self._open.values())
        # this machine's own address is that of a proxy nobody named, or of whoever tries the server
        bounded = is_bounded(address) and not self.proxies.trusts(address)
        if len(self._open) >= self.most or (own >= self.per_address and bounded):
            return False
        self._open[stream] = share
        return True


def share_of(address: str) -> str:
    """What one visitor has whole: an IPv4 address, or the /64 network of an IPv6 address."""
    plain = _parsed(address)
    if isinstance(plain, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((plain, 64), strict=False))
    return address if plain is None else str(plain)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, of IPv4 also where it is written as one of IPv6; None for what is none."""
    try:
        plain = ipaddress.ip_address(address)
    except ValueError:
        return None
    return getattr(plain, "ipv4_mapped", None) or plain

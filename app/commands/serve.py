"""Open k3scope in the browser."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k3scope.app.runs.run_store import Store
    from k3scope.model.checkpoint.model_registry import RegisteredModel

MOST_MB = 1_000_000
MOST_DAYS = 36_500


def arguments(parser) -> None:
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    parser.add_argument("--port", type=int, default=5006, help="port to listen on (default: 5006)")
    parser.add_argument("--prefix", default="", help="path the page lives under, behind a proxy: /k3")
    parser.add_argument("--threads", type=int, default=4, help="threads for the visitors' clicks")
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="SQLite file of runs that links name (default: in the user's cache); memory: on no disk",
    )
    parser.add_argument(
        "--store-size",
        type=int,
        metavar="MB",
        help="of all runs and images kept (default: 512; in memory 64)",
    )
    parser.add_argument(
        "--keep-days",
        type=int,
        default=0,
        metavar="N",
        help="days a run is kept after it ran last (default: no bound)",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="HOST",
        help="host name that may embed or proxy the page",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="a checkpoint folder in the official layout, its headers or a config.json, under a name of "
        "yours; repeatable",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")
    _public_arguments(parser)


def _public_arguments(parser) -> None:
    """Options of a server that others reach."""
    parser.add_argument(
        "--max-connections",
        type=int,
        default=1000,
        metavar="N",
        help="connections in all, of which one address may have 64 (default: 1000)",
    )
    parser.add_argument(
        "--max-sessions",
        type=int,
        default=500,
        metavar="N",
        help="open pages; a further visitor is asked to come back (default: 500)",
    )
    parser.add_argument(
        "--trust-proxy",
        action="append",
        default=[],
        metavar="ADDR|CIDR",
        help="a proxy of yours: its X-Forwarded-For is believed, and it may have all connections; repeatable",
    )
    parser.add_argument(
        "--frame-ancestors",
        action="append",
        metavar="HOST",
        help="who may embed the page in a frame: self, none or a host; repeatable (default: * for all)",
    )
    parser.add_argument(
        "--metrics",
        metavar="[HOST:]PORT",
        help="serve /metrics for Prometheus and /details there, to this machine only unless a host is named",
    )


def run(options) -> None:
    if not 1 <= options.threads <= 64:
        raise ValueError(f"--threads {options.threads}: expected 1 to 64")
    if options.store_size is not None and not 1 <= options.store_size <= MOST_MB:
        raise ValueError(f"--store-size {options.store_size}: expected 1 to {MOST_MB:,} MB")
    if not 0 <= options.keep_days <= MOST_DAYS:
        raise ValueError(f"--keep-days {options.keep_days}: expected 0 (no bound) to {MOST_DAYS:,}")
    if options.max_connections < 1:
        raise ValueError(f"--max-connections {options.max_connections}: expected 1 or more")
    if options.max_sessions < 1:
        raise ValueError(f"--max-sessions {options.max_sessions}: expected 1 or more")
    if not 0 < options.port < 65536:
        raise ValueError(f"--port {options.port}: expected 1 to 65535")
    metrics = _host_and_port("--metrics", options.metrics) if options.metrics else None
    from k3scope.app import models

    for text in options.model:
        model = models.add(text)
        _announce(model, models.why_not_runnable(model.name))
    # panel and bokeh take a second to import: only after everything above was right
    from k3scope.app.page import server

    store = _store(options)
    prefix = "/" + options.prefix.strip("/") if options.prefix.strip("/") else ""
    address = server.ServerOptions(
        options.host,
        options.port,
        prefix,
        options.threads,
        tuple(options.allow_origin),
        show=not options.no_open,
        frame_ancestors=_frame_ancestors(options.frame_ancestors),
        max_connections=options.max_connections,
        max_sessions=options.max_sessions,
        trusted_proxies=_trusted_proxies(options.trust_proxy),
        metrics=metrics,
    )
    server.serve(address, store)


def _frame_ancestors(names: list[str] | None) -> tuple[str, ...]:
    """ValueError for what a content security policy could not take."""
    for name in names or ():
        if not re.fullmatch(r"\*|[A-Za-z0-9*][A-Za-z0-9.*:/-]*", name):
            raise ValueError(f"--frame-ancestors {name}: expected self, none, * or a host: www.example.org")
    if names and "none" in names and len(names) > 1:
        raise ValueError("--frame-ancestors none: expected no other beside it")
    return tuple(names or ("*",))


def _trusted_proxies(texts: list[str]):
    from k3scope.app.page.connections import TrustedProxies

    try:
        return TrustedProxies.parse(texts)
    except ValueError as error:
        raise ValueError(f"--trust-proxy: expected an address or a network: 10.0.0.0/8 ({error})") from None


def _host_and_port(option: str, text: str) -> tuple[str, int]:
    """Where to listen: "9100", "0.0.0.0:9100" or "[::1]:9100". ValueError for anything else."""
    host, colon, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536) or (colon and not host):
        raise ValueError(f"{option} {text}: expected a port from 1 to 65535, with a host: 127.0.0.1:9100")
    return host.strip("[]") or "127.0.0.1", int(port)


def _store(options) -> Store:
    """The store of runs that the options name. A damaged one of ours is set aside, and that is printed."""
    from k3scope.app.runs.retention import MEMORY_MB, STORE_MB, Retention
    from k3scope.app.runs.run_store import Store
    from k3scope.app.runs.store_file import MEMORY, default_path

    path = MEMORY if options.store == "memory" else options.store or default_path()
    size = options.store_size or (MEMORY_MB if path == MEMORY else STORE_MB)
    store = Store(path, Retention(size, options.keep_days), mend=True)
    if store.set_aside:
        print(f"k3scope: {store.set_aside}", file=sys.stderr, flush=True)
    return store


def _announce(model: RegisteredModel, why: str) -> None:
    """`why` it does not run, "" when it does."""
    runs = f"is drawn but does not run: {why}" if why else "runs here"
    print(f"{model.name} ({model.config.layers} layers of {model.path}) {runs}", flush=True)

"""The web server: a page per visitor over models that all visitors share."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakSet

import panel as pn
from panel.io.server import DocHandler, Server
from tornado.web import HTTPError

from k3scope.app import models
from k3scope.app.page import card_page, page, preloaded
from k3scope.app.page.architecture.layer_strip import strip
from k3scope.app.page.connections import Connections, TrustedProxies
from k3scope.app.page.dock.dock import dock
from k3scope.app.page.health import Liveness
from k3scope.app.page.http_headers import NonceHandler, add_headers
from k3scope.app.page.inspector.live import live
from k3scope.app.page.kit import panel_patches
from k3scope.app.page.kit.events import dispatch, execute, threads, when_loaded
from k3scope.app.page.lab.lab_tab import lab
from k3scope.app.page.log_lines import clean_logs
from k3scope.app.page.server_metrics import Counts, Metrics, operator_pages
from k3scope.app.page.session_limit import UNUSED, SessionLimit
from k3scope.app.pool.pool import pool
from k3scope.app.runs.run_session import RunSession
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.stack import representative
from k3scope.diagrams.scene.graph import scene
from k3scope.diagrams.scene.search import index
from k3scope.model.checkpoint.model_registry import REGISTERED
from k3scope.model.presets import preset

SESSION_LIMIT = "session_limit"  # key of the application's settings
NO_PROXIES = TrustedProxies()
MESSAGE_LIMIT = 2 * 2**20  # bytes of one websocket message; images come in parts of 1 MB
LONGEST_LINK = 2**14  # characters; ours have 8,000 at most, and the websocket's headers repeat them
HTTP_LIMITS = {
    "idle_connection_timeout": 10,  # seconds until the headers of a request are whole, and between two
    "body_timeout": 10,
    "max_body_size": 2**16,  # bytes; no request has a body
    "max_header_size": 2**17,  # bytes; a link that is too long is still answered
}


class PageHandler(NonceHandler, DocHandler):
    """Sends the opening of a link at once, and the session's half when there is a session."""

    async def get(self, *args, **kwargs):
        if len(self.request.uri) > LONGEST_LINK:
            raise HTTPError(400)
        if self.request.path.endswith("/"):
            # Panel would split the query there
            self.request.query = self.request.query.replace("?", "%3F")
            self.request.uri = "?".join(filter(None, (self.request.path, self.request.query)))
            with self.settings[SESSION_LIMIT].place():
                return await super().get(*args, **kwargs)
        # the page's own requests are relative to its folder: from /k3 they would go to /static
        self.redirect(self.request.uri.replace(self.request.path, self.request.path + "/", 1))

    async def get_session(self):
        search = f"?{self.request.query}" if self.request.query else ""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.write(await threads.open(partial(page.opening_html, search)))
        await self.flush()
        # Panel builds the models of a page in one go, a tenth of a second in which nobody would be answered
        make = super().get_session
        session = await threads.open(lambda: asyncio.run(make()))
        panel_patches.hand_over(session.document)
        return session


def open_session(runner: Runner, sessions: WeakSet, proxies: TrustedProxies = NO_PROXIES) -> pn.Template:
    """The session's half of the page with a state and runs of its own; called once per opened page."""
    state, address = page.visit(pn.state.location.search if pn.state.location else "")
    session = RunSession(state, runner, execute, dispatch)
    context = pn.state.curdoc.session_context if pn.state.curdoc else None
    if context is not None and context.request is not None:
        session.address = proxies.client_address(context.request)
    sessions.add(session)
    strip(session)
    when_loaded(session.open)  # a link that names a prompt runs it after the first paint
    return page.session_template(state, address, dock=dock(session), live=live(session), lab=lab(session))


@dataclass(frozen=True)
class ServerOptions:
    """Where the page is served, and to whom."""

    host: str
    port: int
    prefix: str = ""  # path before every address, with a leading slash
    threads: int = 4  # for the visitors' clicks
    origins: tuple[str, ...] = ()  # further host names that may embed or proxy the page
    show: bool = False  # open a browser
    frame_ancestors: tuple[str, ...] = ("*",)  # who may embed the page: self, none, hosts, * for all
    max_connections: int = 1000
    max_sessions: int = 500
    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)
    metrics: tuple[str, int] | None = None  # host and port of what an operator watches

    @property
    def address(self) -> str:
        host = "localhost" if self.host in ("127.0.0.1", "0.0.0.0") else self.host
        return f"http://{host}:{self.port}{self.prefix}/"


def serve(options: ServerOptions, store: Store) -> None:
    """Serve until interrupted. ValueError when the port is taken."""
    _claim(options.host, options.port)
    if options.metrics:
        _claim(*options.metrics, "--metrics")
    pn.extension("mathjax")
    clean_logs()
    panel_patches.serve_pages_with(PageHandler)
    threads.resize(options.threads)
    registered = {name: str(model.path) for name, model in REGISTERED.items()}
    pool.start(preloaded.__name__, partial(preloaded.register_models, registered), preloaded.warm)
    warm_up()
    unavailable = {name: reason for name in models.drawn() if (reason := models.why_not_runnable(name))}
    sessions: WeakSet[RunSession] = WeakSet()  # those that no closed page has let go
    runnable = [name for name in (*models.RUNNABLE, *REGISTERED) if name not in unavailable]
    runner = Runner(runnable, store, unavailable)
    print(f"k3scope at {options.address}", flush=True)
    try:
        server = pn.serve(
            {"/": lambda: open_session(runner, sessions, options.trusted_proxies)},
            address=options.host,
            port=options.port,
            prefix=options.prefix,
            websocket_origin=allowed_origins(options.origins, options.port),
            websocket_max_message_size=MESSAGE_LIMIT,
            http_server_kwargs=HTTP_LIMITS,
            extra_patterns=[("/liveness", Liveness), (card_page.PATH, card_page.CardHandler)],
            start=False,
            show=options.show,
            verbose=False,  # the address is printed above, once
            title="k3scope",
            compress_response=True,
            **UNUSED,
        )
        server._tornado.settings[SESSION_LIMIT] = SessionLimit(server._tornado, options.max_sessions)
        add_headers(server._tornado, options.frame_ancestors)
        connections = Connections(options.max_connections, options.trusted_proxies)
        connections.limit(server._http)
        if options.metrics:
            counts = Counts(lambda: len(sessions), lambda: connections.count)
            _watch(server, options.metrics, Metrics(runner, counts), {"runner": runner, "sessions": sessions})
        server.start()
        ended_by: list[int] = []
        _stop_at_signal(server, ended_by)
        server.io_loop.start()
    finally:
        pool.close()
        runner.close()
    _end_as_by(ended_by)


def _stop_at_signal(server: Server, ended_by: list[int]) -> None:
    """Let SIGTERM end the loop, so that the processes of the pool are ended too, and note that it came."""

    def stop(number: int, _frame) -> None:
        ended_by.append(number)
        server.io_loop.add_callback_from_signal(server.io_loop.stop)

    signal.signal(signal.SIGTERM, stop)


def _end_as_by(signals: list[int]) -> None:
    """Everything has been ended: now end as the signal itself would have it."""
    for number in signals:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _watch(server: Server, at: tuple[str, int], metrics: Metrics, details: dict) -> None:
    """Serve what an operator watches, on the loop of the page's server."""
    server.io_loop.add_callback(metrics.lag.measure)
    host, port = at
    operator_pages(metrics, details).listen(port, host)
    print(f"metrics at http://{host}:{port}/metrics", flush=True)


def warm_up() -> None:
    """Build what every first visitor needs, before there is one: the full tree, its facts, its drawing."""
    Facts.of("kimi-k3").block("kimi_k3")
    for layer in (None, *{representative(preset("kimi-k3"), i) for i in range(preset("kimi-k3").layers)}):
        scene("kimi-k3", layer=layer)
    index("kimi-k3")
    page.opening_html("")
    gc.collect()
    gc.freeze()  # what is there now stays: a collection that looks through it takes a third of a second


def allowed_origins(origins: Sequence[str], port: int) -> list[str] | None:
    """Hosts that may talk to the server: the options' and this machine's own names; None: Panel's choice."""
    return [*origins, f"localhost:{port}", f"127.0.0.1:{port}"] if origins else None


def _claim(host: str, port: int, option: str = "--port") -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(
                f"cannot listen on {host}:{port} ({error.strerror}); try another {option}"
            ) from None

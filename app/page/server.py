"""The web server: a page per visitor over models that all visitors share."""

import asyncio
import socket
from weakref import WeakSet

import panel as pn
from bokeh.server.urls import per_app_patterns
from panel.io.server import DocHandler

from k3scope.app import models
from k3scope.app.page import card_page, page
from k3scope.app.page.architecture.layer_strip import strip
from k3scope.app.page.dock.dock import dock
from k3scope.app.page.health import Liveness
from k3scope.app.page.inspector.live import live
from k3scope.app.page.lab.lab_tab import lab
from k3scope.app.runs.run_session import Runs
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runner import Runner
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.stack import alike
from k3scope.diagrams.scene.graph import scene
from k3scope.diagrams.scene.search import index
from k3scope.model.checkpoint.named import NAMED
from k3scope.model.presets import preset

MESSAGE_LIMIT = 20 * 2**20  # bytes of one websocket message


class Page(DocHandler):
    """Sends what a link shows by itself at once, and what needs a session when there is one."""

    async def get(self, *args, **kwargs):
        if self.request.path.endswith("/"):
            self.request.query = self.request.query.replace("?", "%3F")  # Panel would part it there
            self.request.uri = "?".join(filter(None, (self.request.path, self.request.query)))
            return await super().get(*args, **kwargs)
        # what the page asks for is named from its folder on: /k3 would ask for /static
        self.redirect(self.request.uri.replace(self.request.path, self.request.path + "/", 1))

    async def get_session(self):
        search = f"?{self.request.query}" if self.request.query else ""
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.write(await asyncio.to_thread(page.opening, search))
        await self.flush()
        return await super().get_session()


def visitor(runner: Runner, here: WeakSet) -> pn.Template:
    """Everything one visitor sees; called once per opened page."""
    state, address = page.visit(pn.state.location.search if pn.state.location else "")
    runs = Runs(state, runner, pn.state.execute)
    here.add(runs)
    strip(runs)
    pn.state.onload(runs.open)  # a link that names a prompt runs it after the first paint
    return page.page(state, address, dock=dock(runs), live=live(runs), lab=lab(runs))


def serve(
    host: str, port: int, prefix: str, threads: int, store: Store, origins: list[str], show: bool
) -> None:
    """Serve until interrupted. ValueError when the port is taken."""
    _claim(host, port)
    pn.extension("mathjax")
    per_app_patterns[-1] = ("/?", Page)
    pn.config.nthreads = threads
    warm()
    idle = {name: why for name in models.drawn() if (why := models.lacks(name))}
    here: WeakSet[Runs] = WeakSet()  # whoever is still in memory
    runner = Runner([name for name in (*models.RUNNABLE, *NAMED) if name not in idle], store, idle)
    print(
        f"k3scope at http://{'localhost' if host in ('127.0.0.1', '0.0.0.0') else host}:{port}{prefix}/",
        flush=True,
    )
    try:
        pn.serve(
            {"/": lambda: visitor(runner, here)},
            address=host,
            port=port,
            prefix=prefix,
            websocket_origin=allowed(origins, port),
            websocket_max_message_size=MESSAGE_LIMIT,
            extra_patterns=[
                ("/liveness", Liveness, {"runner": runner, "here": here}),
                (card_page.PATH, card_page.CardHandler),
            ],
            show=show,
            title="k3scope",
            compress_response=True,
        )
    finally:
        runner.close()


def warm() -> None:
    """Build what every first visitor needs, before there is one: the full tree, its facts, its drawing."""
    Facts.of("kimi-k3").block("kimi_k3")
    for layer in (None, *{alike(preset("kimi-k3"), i) for i in range(preset("kimi-k3").layers)}):
        scene("kimi-k3", layer=layer)
    index("kimi-k3")
    page.opening("")


def allowed(origins: list[str], port: int) -> list[str] | None:
    """Hosts that may talk to the server: those named and this machine's own names; None: Panel's choice."""
    return [*origins, f"localhost:{port}", f"127.0.0.1:{port}"] if origins else None


def _claim(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(
                f"cannot listen on {host}:{port} ({error.strerror}); try another --port"
            ) from None

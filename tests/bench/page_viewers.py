"""The page and the viewers it is measured against: how each is started, and where a hand would go in it.

Every script below is a condition for the browser; the time ends with the first frame that shows it true.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
PANEL = "document.querySelector('info-panel').textContent"
RENDERER = "Object.values(me_test.renderers)[0]"
EXPLORE = """
import sys
from pathlib import Path
import model_explorer
from model_explorer import server
config = model_explorer.config()
config.graphs_list.append(Path(sys.argv[1]).read_text())
config.model_sources.append({"url": "graphs://k3/0"})
server.start(port=int(sys.argv[2]), config=config, no_open_in_browser=True, skip_health_check=True)
"""


@dataclass
class Viewer:
    """One program that draws a graph in the browser."""

    name: str
    command: list[str]
    url: str
    drawn: str  # the graph is on screen
    middle: tuple[int, int]  # where the wheel turns
    box: Callable[[Page], tuple[float, float]] | None = None  # a box to click, in pixels
    told: str = ""  # the click is answered
    knob: Callable[[Page], tuple[float, float]] | None = None  # what opens a group
    state: str = "0"  # an expression that changes when the group has opened
    alive: str = ""  # the rest of the page works as well
    prepare: Callable[[Page], None] = lambda page: None
    server: subprocess.Popen | None = field(default=None, repr=False)

    def start(self) -> None:
        """Start the server and wait for it. RuntimeError when it does not answer within a minute."""
        self.server = subprocess.Popen(
            self.command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(120):
            try:
                urlopen(self.url.partition("?")[0], timeout=10).close()
                return
            except (URLError, ConnectionError, TimeoutError):
                time.sleep(0.5)
        raise RuntimeError(f"{self.name} did not start: {' '.join(self.command)}")

    def stop(self) -> None:
        if self.server:
            self.server.terminate()
            self.server.wait(10)


def middle_of(page: Page, script: str) -> tuple[float, float]:
    """Pixels of the middle of the element that a script gives."""
    box = page.evaluate(f"() => {{ const r = ({script}).getBoundingClientRect(); return r.toJSON() }}")
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def ours(port: int, store: Path, search: str) -> Viewer:
    inside = "document.querySelector('#diagram').shadowRoot.querySelector"
    name = "ours"
    command = [
        sys.executable,
        "-m",
        "k3scope",
        "serve",
        "--no-open",
        "--port",
        str(port),
        "--store",
        str(store),
    ]
    return Viewer(
        name,
        command,
        f"http://localhost:{port}/{search}",
        drawn=f"{inside}('.node .box').getBoundingClientRect().width > 0",
        middle=(520, 420),
        box=lambda page: middle_of(page, f"{inside}('[data-id=attn_norm] .box')"),
        told=f"{inside}('[data-id=attn_norm].sel') && "
        "document.querySelector('[data-testid=subject]').textContent === 'Attention RMSNorm'",
        knob=lambda page: middle_of(page, f"{inside}('[data-toggle=kda]')"),
        state=f"!!{inside}('[data-id=kda].group')",
        alive="document.documentElement.classList.contains('live')",
    )


def netron(folder: Path, file: Path, port: int) -> Viewer:
    return Viewer(
        "Netron",
        [str(folder / "netron"), str(file), "--port", str(port)],
        f"http://localhost:{port}/",
        drawn="document.querySelector('.node-item')?.getBoundingClientRect().width > 0 "
        "&& !document.body.classList.contains('welcome')",
        middle=(720, 450),
        box=lambda page: middle_of(page, "document.querySelectorAll('.node-item-type')[1]"),
        # the details slide in: they count when all of them is in sight
        told="document.querySelector('#sidebar-content .sidebar-item')"
        "?.getBoundingClientRect().right <= innerWidth",
        # a first visit stops at a question when there is no network; this one is not the first
        prepare=lambda page: page.context.add_cookies(
            [{"name": "consent", "value": "1", "url": f"http://localhost:{port}"}]
        ),
    )


def explorer(folder: Path, file: Path, port: int, one: bool) -> Viewer:
    script = file.with_suffix(".py")
    script.write_text(EXPLORE)
    query = "?data=%7B%22models%22%3A%20%5B%7B%22url%22%3A%20%22graphs%3A//k3/0%22%7D%5D%7D"
    canvas = "document.querySelector('webgl-renderer canvas.main')"

    def at_left(page: Page) -> tuple[float, float]:
        x, y = middle_of(page, canvas)
        return x - 49, y  # the group is alone in the middle of the canvas, its knob to the left

    return Viewer(
        "Model Explorer",
        [str(folder / "python"), str(script), str(file), str(port)],
        f"http://localhost:{port}/{query}",
        drawn=f"{canvas} && {PANEL}.includes('op node count')",
        middle=(535, 474),
        box=(lambda page: middle_of(page, canvas)) if one else None,
        told=f"!{PANEL}.includes('op node count')",
        knob=at_left if one else None,
        state=f"{RENDERER}.nodesToRender.length",
    )

"""What a visitor waits for: the page beside Netron and Model Explorer, on the same graph, in one run.

python tests/bench/page.py [--rivals FOLDER] [--rounds N]

FOLDER holds the programs of an environment with `netron` and `ai-edge-model-explorer`; what is not
installed there is left out and named. Every figure is the median of the rounds; all viewers take turns.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import RESULTS, machine
from page_graphs import operations, write_explorer, write_onnx
from page_viewers import Viewer, explorer, netron, ours
from playwright.sync_api import Browser, Page, sync_playwright

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-sync", "--disable-background-networking",
    "--disable-component-update", "--no-first-run",
]  # fmt: skip
WATCH = """{
  const own = window.eval; Object.defineProperty(window, "eval", { get: () => own, set: () => {} })
  const holds = (test) => { try { return Boolean(test()) } catch { return false } }
  const painted = (tell) => { // after the frame that is being made
    const channel = new MessageChannel(); channel.port1.onmessage = () => tell(performance.now())
    channel.port2.postMessage(0)
  }
  window.k3first = (test) => new Promise((tell) => {
    const look = () => requestAnimationFrame(() => holds(test) ? painted(tell) : look()); look() })
  window.k3answer = (test) => new Promise((tell) => addEventListener("pointerup", async ({ timeStamp }) =>
    tell(await k3first(test) - timeStamp), { once: true, capture: true }))
  window.k3frames = () => { const times = []; let on = true
    const tick = (now) => { times.push(now); if (on) requestAnimationFrame(tick) }
    requestAnimationFrame(tick)
    return () => { on = false; return times.slice(1).map((t, i) => t - times[i]) } }
}"""
ROWS = {
    "first paint ms": "first_paint", "drawn ms": "drawn", "whole page works ms": "alive",
    "click answered ms": "click", "group opens ms": "toggle",
    "pan frame mean ms": "pan_mean", "pan frame p95 ms": "pan_p95",
    "zoom frame mean ms": "zoom_mean", "zoom frame p95 ms": "zoom_p95",
}  # fmt: skip


def look(browser: Browser, viewer: Viewer) -> dict[str, float]:
    """One visit by a new visitor."""
    with _visit(browser, viewer) as page:
        found = {"drawn": _when(page, viewer.drawn)}
        if viewer.alive:
            found["alive"] = _when(page, viewer.alive)
        page.wait_for_timeout(1500)
        found["first_paint"] = page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        if viewer.knob:
            before = json.dumps(page.evaluate(viewer.state))
            found["toggle"] = _press(page, viewer.knob(page), f"({viewer.state}) !== {before}")
            page.mouse.move(*viewer.middle)
        found |= _frames(page, viewer, "pan") | _frames(page, viewer, "zoom")
        return found


def clicked(browser: Browser, viewer: Viewer) -> dict[str, float]:
    """The click is a visit of its own: nothing was opened or moved before it."""
    if viewer.box is None:
        return {}
    with _visit(browser, viewer) as page:
        _when(page, viewer.alive or viewer.drawn)
        page.wait_for_timeout(1500)
        return {"click": _press(page, viewer.box(page), viewer.told)}


@contextmanager
def _visit(browser: Browser, viewer: Viewer) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        page = context.new_page()
        page.add_init_script(WATCH)
        viewer.prepare(page)
        page.goto(viewer.url, wait_until="commit")
        yield page
    finally:
        context.close()


def _when(page: Page, condition: str) -> float:
    """Milliseconds from the start of the visit to the frame that shows it."""
    return page.evaluate(_within(f"k3first(() => {condition})", 60))


def _press(page: Page, at: tuple[float, float], condition: str) -> float:
    """Milliseconds from letting the button go; the pointer rests there before, as a hand does."""
    page.mouse.move(*at)
    page.wait_for_timeout(250)
    page.evaluate(f"() => {{ window.k3told = k3answer(() => {condition}) }}")
    page.mouse.down()
    page.mouse.up()
    return page.evaluate(_within("window.k3told", 20))


def _within(promise: str, seconds: int) -> str:
    late = f"new Promise((_, fail) => setTimeout(() => fail(Error('not within {seconds} s')), {seconds}000))"
    return f"() => Promise.race([{promise}, {late}])"


def _frames(page: Page, viewer: Viewer, what: str) -> dict[str, float]:
    """Times between frames while the wheel turns to and fro."""
    page.mouse.move(*viewer.middle)
    if what == "zoom":
        page.keyboard.down("Control")
    page.evaluate("() => { window.k3stop = k3frames() }")
    for i in range(60):
        page.mouse.wheel(0, 24 if i % 30 < 15 else -24)
    times = page.evaluate("() => k3stop()")
    if what == "zoom":
        page.keyboard.up("Control")
    ranked = sorted(times)
    return {f"{what}_mean": statistics.mean(times), f"{what}_p95": ranked[int(0.95 * (len(ranked) - 1))]}


def viewers(folder: Path | None, work: Path, layers: list[int], port: int) -> list[Viewer]:
    """Ours, and whichever of the others is there."""
    one = len(layers) == 1
    search = f"?layer={layers[0]}" if one else ""
    found, ops = [ours(port, work / "runs.sqlite", search)], operations("kimi-k3", layers)
    write_onnx(ops, work / "graph.onnx")
    write_explorer(ops, work / "graph.json")
    for name, program in (("Netron", "netron"), ("Model Explorer", "model-explorer")):
        at = shutil.which(program, path=str(folder) if folder else None)
        if at is None:
            print(f"{name} is not installed: left out")
            continue
        home = Path(at).parent
        port += 1
        found.append(
            netron(home, work / "graph.onnx", port)
            if program == "netron"
            else explorer(home, work / "graph.json", port, one)
        )
    return found


def compare(browser: Browser, shown: list[Viewer], rounds: int) -> dict[str, dict[str, float]]:
    """Medians by viewer; the first round only warms them up."""
    found: dict[str, list[dict]] = {viewer.name: [] for viewer in shown}
    for viewer in shown:
        viewer.start()
    try:
        for _ in range(rounds + 1):
            for viewer in shown:
                found[viewer.name].append(look(browser, viewer) | clicked(browser, viewer))
    finally:
        for viewer in shown:
            viewer.stop()
    return {
        name: {key: round(statistics.median(s[key] for s in seen[1:]), 1) for key in seen[-1]}
        for name, seen in found.items()
    }


def show(title: str, found: dict[str, dict[str, float]]) -> None:
    print(f"\n{title:<24}" + "".join(f"{name:>16}" for name in found))
    for row, key in ROWS.items():
        print(f"{row:<24}" + "".join(f"{seen.get(key, '-'):>16}" for seen in found.values()))


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--rivals", type=Path, help="folder of the other viewers' programs")
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--port", type=int, default=6520, help="first of three ports to use")
    options = asked.parse_args()
    chromium = os.environ.get("K3SCOPE_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.exit("no chromium on the path (set K3SCOPE_CHROMIUM)")
    results = {"machine": machine()}
    with sync_playwright() as play, tempfile.TemporaryDirectory() as work:
        browser = play.chromium.launch(executable_path=chromium, args=FLAGS)
        for title, layers in (("one layer", [1]), ("93 layers", list(range(93)))):
            shown = viewers(options.rivals, Path(work), layers, options.port)
            results[title] = compare(browser, shown, options.rounds)
            show(title, results[title])
        browser.close()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "page.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()

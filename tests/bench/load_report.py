"""docs/load.md and its pictures, from results/load.json and results/soak.json: no figure is typed."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[2] / "docs"
ACTS = {"click": "Click", "run": "Run", "first token": "First token", "open": "Opening the page"}
SHARES = ("p50", "p95", "worst")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, GAP = 440, 250, 52, 40, 34, 20  # of a panel, in pixels
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 13px }
.card { fill: #ffffff } .grid { stroke: #d1d9e0 } polyline { fill: none; stroke-width: 2 }
.p50 { stroke: #0b5cad } .p95 { stroke: #9a6700; stroke-dasharray: 6 3 }
.worst { stroke: #a40e26; stroke-dasharray: 2 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .card { fill: #0d1117 } .grid { stroke: #3d444d }
  .p50 { stroke: #58a6ff } .p95 { stroke: #d29922 } .worst { stroke: #ff7b72 }
}
"""


@dataclass(frozen=True)
class Axis:
    """Values from low to high on so many pixels; the ticks by their label."""

    low: float
    high: float
    ticks: dict[str, float]
    scale: Callable[[float], float] = math.log10

    def at(self, value: float, pixels: float) -> float:
        low, high = self.scale(self.low), self.scale(self.high)
        return (self.scale(min(max(value, self.low), self.high)) - low) / (high - low) * pixels


SECONDS = Axis(0.02, 60, {"20 ms": 0.02, "0.1 s": 0.1, "1 s": 1, "10 s": 10, "60 s": 60})


def panel(title: str, across: Axis, up: Axis, lines: dict[str, list[tuple[float, float]]]) -> str:
    """One plot; a line is drawn in the style of its name, which stands at its end."""
    width, height = WIDTH - LEFT - 56, HEIGHT - TOP - BOTTOM
    foot = TOP + height
    parts = [f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>']
    for label, value in up.ticks.items():
        y = foot - up.at(value, height)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + width}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for label, value in across.ticks.items():
        x = LEFT + across.at(value, width)
        parts.append(f'<text x="{x:.1f}" y="{foot + 18}" text-anchor="middle">{label}</text>')
    for name, points in lines.items():
        places = [(LEFT + across.at(x, width), foot - up.at(y, height)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        x, y = places[-1]
        parts.append(f'<polyline class="{name}" points="{path}"/>')
        parts.append(f'<text x="{x + 5:.1f}" y="{y + 4:.1f}">{name if len(lines) > 1 else ""}</text>')
    return "\n".join(parts)


def svg(label: str, panels: list[str]) -> str:
    """Panels two in a line."""
    columns = min(len(panels), 2)
    width, height = columns * (WIDTH + GAP) - GAP, math.ceil(len(panels) / 2) * HEIGHT
    places = [(n % 2 * (WIDTH + GAP), n // 2 * HEIGHT) for n in range(len(panels))]
    groups = [
        f'<g transform="translate({x} {y})">\n{panel}\n</g>'
        for panel, (x, y) in zip(panels, places, strict=True)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
    )
    card = f'<rect class="card" width="{width}" height="{height}" rx="6"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", card, *groups, "</svg>"]) + "\n"


def load_svg(rows: list[dict]) -> str:
    """What visitors wait for, by how many there are."""
    sizes = [row["visitors"] for row in rows]
    across = Axis(sizes[0], sizes[-1], {str(size): size for size in sizes})
    panels = []
    for act, title in ACTS.items():
        lines = {
            share: [(row["visitors"], row[key]) for row in rows if (key := f"{act} {share} s") in row]
            for share in SHARES
        }
        panels.append(panel(f"{title}: seconds, by visitors", across, SECONDS, lines))
    return svg("Seconds that a click, a run, a first token and the page take, by visitors", panels)


def soak_svg(soak: dict) -> str:
    """Memory over time."""
    minutes = [(at / 60, mb) for at, mb in soak["memory"] if at >= 0]
    most, end = max(mb for _, mb in minutes) * 1.1, soak["seconds"] / 60
    step = max(1, round(end / 5))
    across = Axis(0, end, {f"{n} min": n for n in range(0, int(end) + 1, step)}, scale=lambda value: value)
    up = Axis(0, most, {f"{n} MB": n for n in range(0, int(most), 200)}, scale=lambda value: value)
    title = f"Memory of {soak['visitors']} visitors who come and go"
    return svg(title, [panel(title, across, up, {"p50": minutes})])


def table(rows: list[dict]) -> str:
    """One line for each number of visitors."""
    columns = ["click p50 s", "click p95 s", "click p99 s", "click worst s", "run p50 s", "run p95 s"]
    columns += ["run worst s", "first token p50 s", "first token p95 s", "open p95 s", "peak MB", "cores"]
    columns = ["visitors", *columns, "refused", "errors"]
    lines = [columns, ["---"] * len(columns)]
    lines += [[f"{row.get(column, '-')}" for column in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(found: dict, soak: dict | None) -> str:
    """The text of docs/load.md."""
    machine, rows = found["machine"], found["rows"]
    late = max(row["machine late p95 s"] for row in rows)
    parts = [
        "# Load",
        "Written by `python tests/bench/load.py --write-docs` from its results.",
        f"From {rows[0]['visitors']} to {rows[-1]['visitors']} visitors on {machine['cores']} cores of "
        f"{machine['cpu']} ({machine['date']}), which the visitors' own program shares. Of ten visitors six "
        "browse (a click every 1 to 3 s), three run prompts of 1 to 40 words (every 3 to 9 s), and one "
        "generates 4 to 16 tokens (every 4 to 12 s); each stays 20 to 60 s, and another one comes. 10 ms "
        f"of work of another process took {late * 1000:.0f} ms longer (p95, at most) in the same time.",
        "![Seconds that a click, a run, a first token and the page take, by visitors](load.svg)",
        table(rows),
        "Memory is the proportional set size of all processes of the server. `cores` is CPU seconds for each "
        "second; `refused` counts runs that got a sentence instead of a result, `errors` acts whose answer "
        "a visitor gave up waiting for.",
    ]
    if soak:
        parts += [
            "## Soak",
            f"{soak['visitors']} visitors at a time for {soak['seconds'] / 60:.0f} minutes: {soak['visits']} "
            f"visits, {soak['clicks']} clicks after the first minute, the slowest {soak['worst click s']} s, "
            f"{soak['runs']} runs; {len(soak['refused'])} refused, {len(soak['problems'])} errors. Memory "
            f"went from {soak['settled MB']:.0f} to {soak['end MB']:.0f} MB ({soak['growth']:+.1%}).",
            "![Memory over the time of the soak](soak.svg)",
        ]
    return "\n\n".join(parts) + "\n"


def documents() -> dict[Path, str]:
    """Every file that follows from the results, with its text."""
    found = json.loads((RESULTS / "load.json").read_text())
    at = RESULTS / "soak.json"
    soak = json.loads(at.read_text()) if at.exists() else None
    files = {DOCS / "load.md": page(found, soak), DOCS / "load.svg": load_svg(found["rows"])}
    return files | ({DOCS / "soak.svg": soak_svg(soak)} if soak else {})


def write_docs() -> None:
    DOCS.mkdir(exist_ok=True)
    for path, text in documents().items():
        path.write_text(text)

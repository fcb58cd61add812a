"""A scene as an SVG file that looks like the page: the same colours, and all text as text.

The colours come from the page's stylesheet; they are written into each element, as not every
program that shows SVG knows CSS variables.
"""

import re
from functools import cache
from html import escape
from itertools import pairwise

from k3scope.assets import CSS
from k3scope.diagrams.drawing.metrics import LINE_H

DIAGRAM_CSS = CSS / "diagram.css"
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
STROKE = {
    "flow": 'stroke-width="1.35"',
    "sum": 'stroke-width="1.35" stroke-dasharray="6 4"',
    "store": 'stroke-width="2" stroke-dasharray="0.1 4.5" stroke-linecap="round"',
}
LINE_KIND = {"flow": "line", "sum": "norm", "store": "aux"}
RADIUS, RAIL = 8, 90


def to_svg(scene: dict, dark: bool = False, selected: str = "") -> str:
    """The whole drawing as one SVG document."""
    c = colours(dark)
    nodes = {n["id"]: n for n in scene["nodes"]}
    groups = sorted((n for n in scene["nodes"] if n["open"]), key=lambda n: n["depth"])
    boxes = [n for n in scene["nodes"] if not n["open"]]
    order = {"store": 0, "sum": 1, "flow": 2}
    edges = sorted(scene["edges"], key=lambda e: order[e["kind"]])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {scene["width"]} {scene["height"]}" '
        f'width="{scene["width"]}" height="{scene["height"]}" font-family="{SANS}" font-size="12.5">',
        "<title>Architecture diagram</title>",
        f'<rect width="100%" height="100%" fill="{c["stage"]}"/>',
        *[_group(n, c, n["id"] == selected) for n in groups],
        *[_edge(e, nodes, c, selected) for e in edges],
        *[_header(n, c) for n in groups],
        *[_label(e, c) for e in edges if "lx" in e],
        *[_box(n, c, n["id"] == selected) for n in boxes],
        "</svg>",
    ]
    return "\n".join(parts)


@cache
def colours(dark: bool) -> dict[str, str]:
    """The variables of the stylesheet for one theme."""
    light, night = (
        dict(re.findall(r"--([\w-]+): (#\w+)", body))
        for body in re.findall(r"\.k3d(?:\.dark)? \{([^}]*--bg:[^}]*)\}", DIAGRAM_CSS.read_text())
    )
    return night if dark else light


def _text(x, y, text, fill, size=12.5, anchor="start", extra="") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" text-anchor="{anchor}"{extra}>'
        f"{escape(text)}</text>"
    )


def _frame(node: dict, fill: str, stroke: str, rx: float, width: float) -> str:
    x, y, w, h = (node[key] for key in "xywh")
    return (
        f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="{rx:g}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="{width}"/>'
    )


def _group(node: dict, c: dict, selected: bool) -> str:
    stroke = c["pick"] if selected else c[node["kind"]]
    return _item(node, [_frame(node, c[f"{node['kind']}-g"], stroke, 14, 2.5 if selected else 0.6)])


def _header(node: dict, c: dict) -> str:
    """Title and badge of an open group, over the lines that enter it."""
    kind = c[node["kind"]]
    halo = f' font-weight="600" stroke="{c[node["kind"] + "-g"]}" stroke-width="4" paint-order="stroke"'
    parts = [_text(node["x"] + 18, node["y"] + 22.5, node["title"], kind, extra=halo)]
    if node["badge"]:
        w = node["badge_w"]
        x, y = node["x"] + node["w"] - w - 12, node["y"] + 9
        parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w}" height="18" rx="9" fill="{c["bg"]}" '
            f'stroke="{kind}" stroke-width="0.5"/>'
        )
        parts.append(_text(x + w / 2, y + 13, node["badge"], c["muted"], 10.5, "middle"))
    return "".join(parts)


def _box(node: dict, c: dict, selected: bool) -> str:
    tall = node["h"] > RAIL
    fill = c["bg"] if node["io"] or node["level"] == "tensor" else c[f"{node['kind']}-{'g' if tall else 'f'}"]
    rx = node["h"] / 2 if node["io"] else 16 if node["level"] == "op" else RADIUS
    stroke = c["pick"] if selected else c[node["kind"]]
    x, y = node["x"] + node["w"] / 2, node["y"] + (34 if tall else node["h"] / 2)
    up = -3 if node["row"] else 4.5
    parts = [
        _frame(node, fill, stroke, rx, 2.5 if selected else 1.25),
        _text(x, y + up, node["title"], c["fg"], anchor="middle", extra=' font-weight="600"'),
    ]
    if node["row"]:
        mono = f' font-family="{MONO}"' if node["row"] == node["mono"] else ""
        parts.append(_text(x, y + 13.5, node["row"], c["muted"], 11, "middle", mono))
    return _item(node, parts)


def _item(node: dict, parts: list[str]) -> str:
    hint = f"<title>{escape(node['summary'])}</title>" if node["summary"] else ""
    return f'<g data-id="{escape(node["id"])}">{hint}{"".join(parts)}</g>'


def _edge(edge: dict, nodes: dict, c: dict, selected: str) -> str:
    direction = _direction(edge, nodes, selected) if selected else ""
    colour = c[direction or LINE_KIND[edge["kind"]]]
    style = f'fill="none" stroke="{colour}" {STROKE[edge["kind"]]}'
    if direction:
        style = re.sub(r'width="[\d.]+"', 'width="2.5"', style)
    parts = [f'<path d="{_rounded(edge["points"])}" {style}/>']
    if not nodes[edge["target"]]["open"]:
        parts.append(f'<path d="{_arrow(*edge["points"][-2:])}" fill="{colour}"/>')
    return "".join(parts)


def _direction(edge: dict, nodes: dict, selected: str) -> str:
    """Whether an edge brings something "in" to the selected box or group or takes it "out"; else ""."""
    ends = [(_inside(a, selected, nodes), _inside(b, selected, nodes)) for a, b in edge["members"]]
    if any(b and (not a or edge["loop"]) for a, b in ends):
        return "in"
    return "out" if any(a and (not b or edge["loop"]) for a, b in ends) else ""


def _inside(box: str | None, group: str, nodes: dict) -> bool:
    while box in nodes and box != group:
        box = nodes[box]["parent"]
    return box == group


def _rounded(points: list[list[float]]) -> str:
    """Path data of a polyline with round corners."""
    parts = [f"M{_xy(points[0])}"]
    for (before, corner), (_, after) in pairwise(pairwise(points)):
        r = min(RADIUS, _distance(before, corner) / 2, _distance(corner, after) / 2)
        parts.append(f"L{_xy(_toward(corner, before, r))}Q{_xy(corner)} {_xy(_toward(corner, after, r))}")
    return "".join(parts) + f"L{_xy(points[-1])}"


def _arrow(before: list[float], tip: list[float]) -> str:
    dx, dy = _sign(tip[0] - before[0]), _sign(tip[1] - before[1])
    x, y = tip[0] - 7 * dx, tip[1] - 7 * dy
    wings = (x - 3.6 * dy, y - 3.6 * dx), (x + 3.6 * dy, y + 3.6 * dx)
    return f"M{_xy(tip)}L{_xy(wings[0])}L{_xy(wings[1])}Z"


def _label(edge: dict, c: dict) -> str:
    colour = {"flow": c["fg"], "sum": c["norm"], "store": c["aux"]}["sum" if edge["loop"] else edge["kind"]]
    lines = [(edge["text"], colour, 10.5, ' font-weight="500"')] if edge["text"] else []
    lines += [(line, c["muted"], 10, f' font-family="{MONO}"') for line in edge["label"]]
    return "".join(
        _text(edge["lx"], edge["ly"] + i * LINE_H, line, fill, size, edge["anchor"], extra)
        for i, (line, fill, size, extra) in enumerate(lines)
    )


def _xy(point) -> str:
    return f"{point[0]:g},{point[1]:g}"


def _distance(a, b) -> float:
    return abs(a[0] - b[0]) + abs(a[1] - b[1])


def _toward(start, end, r: float) -> tuple[float, float]:
    return start[0] + _sign(end[0] - start[0]) * r, start[1] + _sign(end[1] - start[1]) * r


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)

"""Architecture graph in, drawing out: boxes, lines and labels with coordinates, as a plain dict."""

from collections import defaultdict

import networkx as nx

from k3scope.diagrams.drawing.edge_segments import TOP, RoutedEdge, Tree, cut, visible_edges
from k3scope.diagrams.drawing.frame import Box, Frame
from k3scope.diagrams.drawing.frame_layout import PAD, frame_of
from k3scope.diagrams.drawing.labels import Label, OccupiedAreas, obstacles, place
from k3scope.diagrams.drawing.metrics import (
    BOX_H,
    HEAD_H,
    badge_width,
    bold_width,
    box_size,
    label_size,
    second_row,
)
from k3scope.diagrams.drawing.route import line, settle, side_heights, store_lines

MARGIN, ASIDE_GAP = 20, 44
COPIED = (
    "title",
    "sub",
    "mono",
    "kind",
    "group",
    "open",
    "badge",
    "summary",
    "params",
    "count",
    "io",
    "level",
    "more",
)


def layout(graph: nx.DiGraph) -> dict:
    """Scene of a graph: nodes and edges placed top-down, groups around their inner boxes."""
    tree = Tree(graph)
    edges = visible_edges(graph, tree)
    aside = _aside(tree, edges)
    stores = [e for e in edges if aside & {e.source, e.target}]
    segments = defaultdict(list)
    for segment in cut([e for e in edges if e not in stores], tree):
        segments[segment.container].append(segment)
    frames = settle(frame_of(TOP, tree, segments, aside), 0, MARGIN)
    boxes = {b.id: b for f in frames for b in f.boxes.values()}
    width = _stand_aside(boxes, frames[0], stores, tree, sorted(aside))
    drawn = _lines(frames, boxes, stores, aside)
    _label(drawn, boxes, tree)
    height = max(b.bottom for b in boxes.values()) if boxes else 0
    height = max([height, *(y for e in drawn for _, y in e["points"])]) + MARGIN
    order = sorted(boxes, key=lambda n: tree.node[n]["order"])
    return {
        "width": round(width),
        "height": round(height),
        "nodes": [_node(boxes[n], tree) for n in order],
        "edges": drawn,
    }


def _aside(tree: Tree, edges: list[RoutedEdge]) -> set[str]:
    """Boxes at the top that only store edges touch: they stand beside the column of the others."""
    kinds = defaultdict(set)
    for edge in edges:
        kinds[edge.source].add(edge.kind)
        kinds[edge.target].add(edge.kind)
    return {n for n in tree.children[TOP] if kinds[n] == {"store"} and not tree.is_open(n)}


def _stand_aside(
    boxes: dict[str, Box], top: Frame, stores: list[RoutedEdge], tree: Tree, aside: list[str]
) -> float:
    """Put the boxes at the side to the right, as tall as the group they serve; returns the full width."""
    right = top.x + top.w
    for name in aside:
        mine = [e for e in stores if name in (e.source, e.target)]
        peers = [boxes[p] for e in mine for p in (e.source, e.target) if p in boxes]
        hosts = [b for b in top.boxes.values() if tree.node[b.id]["group"] and _holds(b, peers)] or peers
        widths = [label_size(e.text, e.label)[0] for e in mine if not hosts[0].frame]
        x = right - PAD + max([ASIDE_GAP, *(w + 24 for w in widths)])
        y, bottom = min(h.y for h in hosts), max(h.bottom for h in hosts)
        width, _ = box_size(tree.node[name])
        boxes[name] = Box(name, width, max(BOX_H, bottom - y), x=x, y=y)
        right = x + width + PAD
    return right


def _holds(box: Box, peers: list[Box]) -> bool:
    return box in peers or bool(box.frame and any(_holds(b, peers) for b in box.frame.boxes.values()))


def _lines(
    frames: list[Frame], boxes: dict[str, Box], stores: list[RoutedEdge], aside: set[str]
) -> list[dict]:
    heights = side_heights(frames, boxes, stores, aside)
    drawn = []
    for frame in frames:
        for p in frame.segments:
            ends = p.a or frame.id, p.b or frame.id
            points = line(frame, p, heights)
            drawn.append(
                _edge(f"{frame.id}/{p.net}", ends, p.members, p.kind, p.loop, points, p.text, p.label)
            )
    for name in sorted(aside):
        mine = [e for e in stores if name in (e.source, e.target)]
        for e, points in zip(mine, store_lines(boxes[name], mine, boxes, heights), strict=True):
            ends = e.source, e.target
            drawn.append(_edge(f"/{e.source}", ends, [[*ends]], e.kind, e.loop, points, e.text, e.label))
    return drawn


def _edge(net, ends, members, kind, loop, points, text, label) -> dict:
    return {
        "id": f"{net}:{ends[0]}>{ends[1]}:{kind}",
        "net": net,
        "source": ends[0],
        "target": ends[1],
        "members": members,
        "kind": kind,
        "loop": loop,
        "points": [[round(x, 1), round(y, 1)] for x, y in points],
        "text": text,
        "label": label,
    }


def _label(drawn: list[dict], boxes: dict[str, Box], tree: Tree) -> None:
    """Find a position for every label, the ones with the least room first."""
    occupied = OccupiedAreas([area for e in drawn for area in obstacles(e["points"])])
    for name, box in boxes.items():
        for area in _solid(box, tree.node[name]):
            occupied.add(area)
    labelled = set()
    for edge in sorted(drawn, key=lambda e: e["points"][-1][1] - e["points"][0][1]):
        if edge["text"] or edge["label"]:
            label = Label(edge["text"], edge["label"], edge["points"], edge["net"] in labelled, edge["loop"])
            labelled.add(edge["net"])
            edge["lx"], edge["ly"], edge["anchor"] = place(label, occupied)


def _solid(box: Box, node: dict) -> list[tuple[float, float, float, float]]:
    """Where no label may stand: a box, or the border, title and badge of an open group."""
    x, y, right, bottom = box.x - 4, box.y - 2, box.right + 4, box.bottom + 2
    if not box.frame:
        return [(x, y, right, bottom)]
    title, badge = 36 + bold_width(node["title"]), badge_width(node["badge"]) + 12
    return [
        (x, y, x + 8, bottom), (right - 8, y, right, bottom),
        (x, y, right, y + 4), (x, bottom - 4, right, bottom),
        (x, y, x + title, y + HEAD_H), (right - badge, y, right, y + HEAD_H),
    ]  # fmt: skip


def _node(box: Box, tree: Tree) -> dict:
    node = tree.node[box.id]
    return {
        "id": box.id,
        **{key: node.get(key) for key in COPIED},
        "row": second_row(node),
        "badge_w": badge_width(node["badge"]),
        "x": round(box.x, 1),
        "y": round(box.y, 1),
        "w": round(box.w, 1),
        "h": round(box.h, 1),
        "parent": node["parent"] or None,
        "depth": len(tree.path(box.id)) - 2,
    }

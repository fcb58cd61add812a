"""Which segments the arrows consist of: an edge that crosses group borders is cut at every border.

The segments of all edges that leave a group at the same port, or enter it at the same port, are one, so a
trunk is drawn once and lists every edge it carries.
"""

from dataclasses import dataclass, field

import networkx as nx

from k3scope.diagrams.drawing.metrics import label_lines

TOP = ""  # the container of everything


@dataclass(eq=False)
class EdgeSegment:
    """One stretch of a net inside one container; `a` is None at the in-port, `b` is None at the out-port."""

    container: str
    net: str  # segments of one net leave from the same point
    a: str | None
    b: str | None
    kind: str
    loop: bool = False
    members: list = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    text: str = ""
    port: str = ""  # the net it becomes inside the open group `b`
    # decided while placing: how it runs, and where
    mode: str = ""
    tracks: list = field(default_factory=list)
    lane: float = 0  # x of its lane
    end: float = 0  # distance of its arrow from the middle of the box it reaches

    def add(self, edge: "RoutedEdge") -> None:
        if [edge.source, edge.target] not in self.members:
            self.members.append([edge.source, edge.target])
        if edge.kind == "flow":
            self.kind = "flow"


@dataclass
class RoutedEdge:
    """An edge between boxes that can be seen."""

    source: str
    target: str
    kind: str
    loop: bool
    label: list[str]
    text: str


class Tree:
    """The boxes that can be seen, and what stands in what."""

    def __init__(self, graph: nx.DiGraph):
        self.node = {n: {**a, "id": n, "parent": a.get("parent") or TOP} for n, a in graph.nodes(data=True)}
        self.children: dict[str, list[str]] = {TOP: []}
        for n in sorted(self.node, key=lambda n: self.node[n]["order"]):
            if self.visible(n) == n:
                self.children.setdefault(n, [])
                self.children.setdefault(self.node[n]["parent"], []).append(n)

    def path(self, n: str) -> list[str]:
        """The containers of a box from the outside in, and the box itself."""
        chain = [n]
        while chain[-1] != TOP:
            chain.append(self.node[chain[-1]]["parent"])
        return chain[::-1]

    def visible(self, n: str) -> str:
        """The box itself, or the outermost closed group around it."""
        return next((p for p in self.path(n)[1:-1] if not self.node[p]["open"]), n)

    def around(self, a: str, b: str) -> str:
        """The innermost container that both boxes stand in."""
        common = set(self.path(a)[:-1])
        return next(p for p in self.path(b)[-2::-1] if p in common)

    def is_open(self, n: str) -> bool:
        return self.node[n]["group"] and self.node[n]["open"]


def visible_edges(graph: nx.DiGraph, tree: Tree) -> list[RoutedEdge]:
    """Edges between visible boxes, in the order of the view.

    Edges inside a closed box are left out, but for the loop that runs round that very box.
    """
    merged: dict[tuple, RoutedEdge] = {}
    for a, b, attr in graph.edges(data=True):
        source, target, loop = tree.visible(a), tree.visible(b), bool(attr.get("loop"))
        if source == target and not (loop and source == tree.around(a, b)):
            continue
        kind, text = attr.get("kind", "flow"), attr.get("text") or ""
        label = label_lines(attr.get("label") or [])
        edge = merged.setdefault((source, target, loop), RoutedEdge(source, target, kind, loop, label, text))
        if kind == "flow":
            edge.kind = kind
        edge.label, edge.text = edge.label or label, edge.text or text
    return list(merged.values())


def cut(edges: list[RoutedEdge], tree: Tree) -> list[EdgeSegment]:
    """All segments of all edges."""
    segments: dict[tuple, EdgeSegment] = {}
    ports: dict[str, dict[str, str]] = {}

    def segment(edge, container, net, a, b, loop=False):
        key = (container, net, a, b, loop)
        segments.setdefault(key, EdgeSegment(container, net, a, b, edge.kind, loop)).add(edge)
        return segments[key]

    for edge in sorted(edges, key=lambda e: e.loop):
        up, down = tree.path(edge.source), tree.path(edge.target)
        level = _level(up, down, edge.loop)
        for inner, container in zip(up[: level + 1 : -1], up[-2:level:-1], strict=False):
            segment(edge, container, edge.source, inner, None)
        across = segment(edge, up[level], edge.source, up[level + 1], down[level + 1], edge.loop)
        across.label = across.label or edge.label
        across.text = across.text or edge.text or ("next layer" if edge.loop else "")
        net = edge.source
        for container, inner in zip(down[level + 1 : -1], down[level + 2 :], strict=True):
            net = across.port = _port(ports.setdefault(container, {}), net, edge.loop)
            across = segment(edge, container, net, None, inner)
    return list(segments.values())


def _level(up: list[str], down: list[str], loop: bool) -> int:
    """Depth of the container both ends stand in; a loop runs round that container, so one further out."""
    level = 0
    while level + 2 < min(len(up), len(down)) and up[level + 1] == down[level + 1]:
        level += 1
    return max(0, level - 1) if loop and up[level + 1] != down[level + 1] else level


def _port(ports: dict[str, str], net: str, loop: bool) -> str:
    """Where a net enters a group: a loop joins the first trunk, as it brings the next input."""
    if net not in ports:
        ports[net] = next(iter(ports.values())) if loop and ports else net
    return ports[net]

"""Two models in one layout: what they share stands at the same position, and what differs is marked."""

from dataclasses import dataclass

import networkx as nx

from k3scope.diagrams.drawing.edge_segments import Tree, visible_edges
from k3scope.diagrams.drawing.layout import layout
from k3scope.diagrams.drawing.metrics import badge_width, second_row
from k3scope.diagrams.facts.block_facts import STEP, Facts
from k3scope.diagrams.scene.graph import OPEN, graph
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.shapes import Step

TEXTS = ("title", "sub", "mono", "badge")  # the longer one takes the room
OWN = (*TEXTS, "kind", "summary", "params", "count", "more")
MARK_TEXTS = {
    "only": "only in this model", "other": "built differently", "size": "other sizes", "same": "equal",
    "absent": "not in this model",
}  # fmt: skip


@dataclass(frozen=True)
class DiagramPair:
    """Two scenes of the same size, and how many blocks of each mark they have."""

    left: dict
    right: dict
    marks: dict[
        str, str
    ]  # by block: "left" or "right" for one that only that model has, or a key of MARK_TEXTS


def pair(a: Facts, b: Facts, opened: tuple[str, ...] = OPEN, step: Step = STEP) -> DiagramPair:
    """Both models with the same groups open."""
    graphs = [graph(f, f.view, frozenset(opened), None, step) for f in (a, b)]
    shared, marks = layout(_union(*graphs)), block_marks(a, b)
    left, right = (_side(shared, g, marks, name) for g, name in zip(graphs, ("left", "right"), strict=True))
    return DiagramPair(left, right, marks)


def block_marks(a: Facts, b: Facts) -> dict[str, str]:
    """How each block of two models differs."""
    marks = {}
    for block in (n.id for n in block_spec.view("model").nodes if not n.io):
        if block in a.blocks and block in b.blocks:
            marks[block] = _difference(a, b, block)
        elif block in a.blocks or block in b.blocks:
            marks[block] = "left" if block in a.blocks else "right"
    return marks


def _difference(a: Facts, b: Facts, block: str) -> str:
    """The same role: of another construction, of other sizes, or equal."""
    if _construction(a, block) != _construction(b, block):
        return "other"
    one, two = a.block(block), b.block(block)
    sizes = [(x.sub, x.per_instance, x.total, x.outputs) for x in (one, two)]
    return "same" if sizes[0] == sizes[1] else "size"


def _construction(facts: Facts, block: str) -> tuple:
    """What a block is whatever its sizes; of a group also which blocks are in it."""
    b = facts.blocks[block]
    letters = "" if b.kind in ("norm", "embed") else b.equation  # of those only the names of letters differ
    return b.of, b.at, b.leaves, b.params, b.flops, b.out, letters, facts.view.children(block)


def _union(a: nx.DiGraph, b: nx.DiGraph) -> nx.DiGraph:
    """Every box and arrow of both, each with the texts that need more room."""
    g = nx.DiGraph()
    order = {n.id: i for i, n in enumerate(block_spec.view("model").nodes)}
    for name in [*a.nodes, *(n for n in b.nodes if n not in a)]:
        nodes = [dict(h.nodes[name]) for h in (a, b) if name in h]
        node = nodes[0] | {key: max((n.get(key) or "" for n in nodes), key=len) for key in TEXTS}
        own = order.get(name, len(order) + nodes[0]["order"])
        g.add_node(name, **node | {"group": any(n["group"] for n in nodes), "order": own})
        g.nodes[name]["open"] = any(n["open"] for n in nodes)
    for h in (a, b):
        for source, target, edge in h.edges(data=True):
            before = g.edges.get((source, target))
            if before is None:
                g.add_edge(source, target, **edge)
            elif len(" ".join(before["label"])) < len(" ".join(edge["label"])):
                before["label"] = edge["label"]
    return g


def _side(shared: dict, own: nx.DiGraph, marks: dict[str, str], name: str) -> dict:
    """The shared layout with the boxes, texts and arrows of one model; what it lacks leaves an outline."""
    nodes = [_node(n, own, marks.get(n["id"], ""), name) for n in shared["nodes"]]
    own_edges = {(e.source, e.target): e for e in visible_edges(own, Tree(own))}
    edges = [e for e in (_edge(edge, own_edges) for edge in shared["edges"]) if e]
    return shared | {"nodes": [n for n in nodes if n], "edges": edges}


def _node(node: dict, own: nx.DiGraph, mark: str, side: str) -> dict | None:
    if node["id"] not in own:
        texts = {"title": node["title"], "sub": MARK_TEXTS["absent"], "mono": "", "badge": "", "summary": ""}
        absent = (
            node | texts | {"row": MARK_TEXTS["absent"], "level": "absent", "params": None, "more": False}
        )
        inside = "/" in node["id"] or (node["parent"] and node["parent"] not in own)
        return None if inside else absent | {"group": False, "open": False}
    mine = dict(own.nodes[node["id"]])
    mark = "only" if mark == side else mark
    drawn = node | {key: mine.get(key) for key in OWN} | {"group": mine["group"], "open": mine["open"]}
    summary = f"{MARK_TEXTS[mark]}. {mine['summary']}" if mark in MARK_TEXTS else mine["summary"]
    return drawn | {
        "row": second_row(mine), "badge_w": badge_width(mine["badge"]), "mark": mark, "summary": summary,
    }  # fmt: skip


def _edge(edge: dict, own: dict) -> dict | None:
    members = [m for m in edge["members"] if tuple(m) in own]
    if not members:
        return None
    mine = [own[tuple(m)] for m in members]
    label = next((m.label for m in mine if m.label), []) if edge["label"] else []
    text = next((m.text for m in mine if m.text), "") if edge["text"] else ""
    kind = "flow" if any(m.kind == "flow" for m in mine) else mine[0].kind
    return edge | {"members": members, "label": label, "text": text, "kind": kind}

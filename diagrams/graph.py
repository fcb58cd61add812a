"""A view as a graph: boxes with their texts, edges with their shapes, groups open or closed."""

from functools import lru_cache

import networkx as nx

from diagrams import spec
from diagrams.drawing.layout import layout
from diagrams.facts import BlockFacts, Facts

OPEN = ("decoder_layer", "kda", "latent_moe")


@lru_cache(maxsize=64)
def scene(model: str, view: str = "model", opened: tuple[str, ...] = OPEN) -> dict:
    """The drawing of a model: boxes and edges with coordinates. ValueError for an unknown model or view."""
    facts = Facts.of(model)
    shown = facts.view if view == "model" else spec.view(view)
    return layout(graph(facts, shown, frozenset(opened)))


def graph(facts: Facts, view: spec.View, opened: frozenset[str]) -> nx.DiGraph:
    """Boxes as nodes and arrows as edges, with everything a drawing needs but coordinates."""
    g = nx.DiGraph()
    parents = {n.parent for n in view.nodes}
    for order, node in enumerate(view.nodes):
        attributes = _io(node) if node.io else _box(facts.block(node.id), facts)
        group = node.id in parents
        g.add_node(
            node.id,
            order=order,
            parent=node.parent,
            group=group,
            open=group and node.id in opened,
            variant=node.variant or None,
            **attributes,
        )
    for edge in view.edges:
        label = [] if edge.kind == "store" and not edge.label else facts.edge_label(edge)
        if g.has_edge(edge.source, edge.target):
            continue  # the same two boxes at another reach: one arrow
        g.add_edge(edge.source, edge.target, kind=edge.kind, loop=edge.loop, label=label, text=edge.label)
    return g


def _io(node: spec.Node) -> dict:
    return {
        "title": node.title, "sub": node.sub, "mono": "", "kind": "structure", "badge": "",
        "summary": node.text, "params": None, "count": 1, "io": True,
    }  # fmt: skip


def _box(block: BlockFacts, facts: Facts) -> dict:
    return {
        "title": block.title, "sub": block.sub, "mono": "", "kind": block.kind,
        "badge": _badge(block, facts), "summary": block.summary, "params": block.total or None,
        "count": block.count, "io": False,
    }  # fmt: skip


def _badge(block: BlockFacts, facts: Facts) -> str:
    layers = facts.config.layers
    if not block.layers and block.group and block.count > 1 and block.per_instance:
        return f"× {block.count}"
    if not block.layers or (not block.group and len(block.layers) == layers):
        return ""
    if len(block.layers) == layers:
        return f"× {layers}"
    if len(block.layers) == 1:
        return f"layer {block.layers[0]}"
    return f"{len(block.layers)} of {layers} layers"

"""A view as a graph: boxes with their texts, edges with their shapes, groups open or closed."""

import networkx as nx

from k3scope.diagrams.drawing.layout import layout
from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import STEP, Facts
from k3scope.diagrams.facts.records import BlockFacts
from k3scope.diagrams.scene import block_contents, edge_values
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.format_numbers import short, size
from k3scope.diagrams.spec.shapes import Step

OPEN = ("decoder_layer", "kda", "latent_moe")
MAX_DRAWINGS = 64  # that are cached of one model


def scene(
    model: str | Facts,
    view: str = "model",
    opened: tuple[str, ...] = OPEN,
    layer: int | None = None,
    step: Step = STEP,
) -> dict:
    """The drawing of a model, or of one of its layers: boxes and edges with coordinates.

    ValueError for an unknown model, view or layer.
    """
    drawn, texts = template(model, view, opened, layer, step), layer_texts(model, layer)
    nodes = [node | texts.get(node["id"], {}) for node in drawn["nodes"]] if texts else drawn["nodes"]
    return drawn | {"nodes": nodes}


def template(
    model: str | Facts,
    view: str = "model",
    opened: tuple[str, ...] = OPEN,
    layer: int | None = None,
    step: Step = STEP,
) -> dict:
    """The drawing without the texts of its layer: the same object for all layers that look the same."""
    facts = _facts(model)
    key = view, opened, None if layer is None else stack.representative(facts.config, layer), step
    drawing = facts.drawings.get(key)  # once: another thread may clear it
    if drawing is None:
        if len(facts.drawings) >= MAX_DRAWINGS:
            facts.drawings.clear()
        drawing = facts.drawings[key] = layout(graph(facts, *_shown(facts, *key[:3]), *key[2:]))
    return drawing


def layer_texts(model: str | Facts, layer: int | None) -> dict[str, dict[str, str]]:
    """What is to be written over a template, by box."""
    return {} if layer is None else stack.layer_texts(_facts(model), layer)


def _facts(model: str | Facts) -> Facts:
    return model if isinstance(model, Facts) else Facts.of(model)


def _shown(
    facts: Facts, view: str, opened: tuple[str, ...], layer: int | None
) -> tuple[block_spec.View, frozenset[str]]:
    """What is drawn, and which of its groups are open."""
    shown, groups = facts.view if view == "model" else block_spec.view(view), frozenset(opened)
    if layer is None:
        return shown, groups
    return stack.view_of(facts, layer), stack.opened(shown, groups)


def graph(
    facts: Facts,
    view: block_spec.View,
    opened: frozenset[str],
    layer: int | None = None,
    step: Step = STEP,
) -> nx.DiGraph:
    """Boxes as nodes and arrows as edges, with everything a drawing needs but coordinates."""
    g = nx.DiGraph()
    parents, blocks = {n.parent for n in view.nodes}, [n.id for n in view.nodes if not n.io]
    # in the order of the view: that of a set would give another drawing in every process
    inner = [b for b in blocks if b in opened and b not in parents and block_contents.contents(facts, b)]
    for order, node in enumerate(view.nodes):
        attributes = _io(node, step) if node.io else _box(facts.block(node.id, layer), facts, layer)
        group = node.id in parents or node.id in inner
        g.add_node(
            node.id,
            order=order,
            parent=node.parent,
            group=group,
            open=group and node.id in opened,
            variant=node.variant or None,
            more=not group and not node.io and bool(block_contents.contents(facts, node.id)),
            **attributes,
        )
    for block in inner:
        _open(g, facts, block)
    for edge in view.edges:
        label = [] if edge.kind == "store" else _label(facts, edge, step)
        for source, target in _ends(facts, view, edge, inner):
            if g.has_edge(source, target):
                continue  # the same two boxes at another reach: one arrow
            g.add_edge(source, target, kind=edge.kind, loop=edge.loop, label=label, text=edge.label)
    return g


def _label(facts: Facts, edge: block_spec.Edge, step: Step) -> list[str]:
    """The shape in letters, with the type behind it if `step.types`, then in numbers."""
    symbolic, concrete = facts.edge_label(edge, step)
    return [f"{symbolic} {edge_values.dtypes(facts, edge)}" if step.types else symbolic, concrete]


def _open(g: nx.DiGraph, facts: Facts, block: str) -> None:
    """Put the tensors and operations of a block into it."""
    first = len(g)
    for i, (name, box) in enumerate(block_contents.boxes(facts, block).items()):
        g.add_node(name, order=first + i, parent=block, group=False, open=False, variant=None, **box)
    for source, target in block_contents.edges(facts, block):
        g.add_edge(source, target, kind="flow", loop=False, label=[], text="")


def _ends(
    facts: Facts, view: block_spec.View, edge: block_spec.Edge, inner: list[str]
) -> list[tuple[str, str]]:
    """Where an arrow starts and ends: at the block, or at operations of one that is open."""
    sources, targets = [edge.source], [edge.target]
    if edge.source in inner:
        sources = block_contents.producers(facts, edge.source, edge.target)
    if edge.target in inner:
        others = {e.source for e in view.edges if e.target == edge.target} - {edge.source}
        targets = block_contents.consumers(facts, edge.target, edge.source, others)
    return [(s, t) for s in sources for t in targets]


def _io(node: block_spec.Node, step: Step) -> dict:
    return {
        "title": node.title, "sub": step.symbolic(node.sub), "mono": "", "kind": "structure", "badge": "",
        "summary": node.text, "params": None, "count": 1, "io": True,
    }  # fmt: skip


def _box(block: BlockFacts, facts: Facts, layer: int | None) -> dict:
    alone = layer is not None and layer in block.layers
    title = stack.layer(facts.config, layer).title if alone and block.id == stack.LAYER else block.title
    return {
        "title": title, "sub": block.sub, "mono": "", "kind": block.kind,
        "badge": _weight(block, facts, layer) if alone else _badge(block, facts), "summary": block.summary,
        "params": block.total or None, "count": block.count, "io": False,
    }  # fmt: skip


def _weight(block: BlockFacts, facts: Facts, layer: int) -> str:
    """What a group of one layer takes."""
    if not block.group:
        return ""
    return f"{short(block.total)} parameters · {size(facts.bytes(block.id, layer))}"


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

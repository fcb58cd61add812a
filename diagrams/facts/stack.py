"""One layer of the stack: which variants it has, what it reads, and the view of it alone."""

from dataclasses import dataclass, replace

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.block_spec import Edge, Node, View
from k3scope.model.config import Config

LAYER, STORE = "decoder_layer", "block_store"
EARLIER, LATER = "earlier_layers", "later_layers"  # what the others become when one layer is drawn
WIDEST = "Layers 88 to 88"
NAMES = {"kda": "KDA", "mla": "MLA"}


@dataclass(frozen=True)
class Layer:
    """A layer as the page shows it; blocks of AttnRes count from 0 in fields and from 1 in texts."""

    index: int
    last: int
    kind: str
    dense: bool
    starts_block: bool
    block: int = 0
    blocks: int = 0  # 0: the model has no AttnRes
    attn_candidates: int = 0
    ffn_candidates: int = 0

    @property
    def variant(self) -> str:
        return f"{NAMES[self.kind]} + {'dense FFN' if self.dense else 'MoE'}"

    @property
    def title(self) -> str:
        return f"Layer {self.index} · {self.variant}"

    @property
    def name(self) -> str:
        """Kind and block in a line: for a tooltip and for screen readers."""
        block = f", AttnRes block {self.block + 1} of {self.blocks}" if self.blocks else ""
        return f"layer {self.index}, {self.variant}{block}"

    @property
    def drawing_key(self) -> tuple:
        """Equal for layers whose drawings differ in texts only."""
        reads = self.attn_candidates > 1
        return self.kind, self.dense, self.starts_block, reads, self.index == 0, self.index == self.last


def layer(config: Config, index: int) -> Layer:
    """ValueError when the model has no such layer."""
    if not 0 <= index < config.layers:
        raise ValueError(f"there is no layer {index}; expected 0 to {config.layers - 1}")
    kind, dense, last = config.kinds[index], index < config.dense_layers, config.layers - 1
    if not config.block:
        return Layer(index, last, kind, dense, False)
    return Layer(
        index,
        last,
        kind,
        dense,
        index % config.block == 0,
        index // config.block,
        -(-config.layers // config.block),
        config.candidates(index, "attn"),
        config.candidates(index, "ffn"),
    )


def layers(config: Config) -> list[Layer]:
    return [layer(config, i) for i in range(config.layers)]


def representative(config: Config, index: int) -> int:
    """The first layer that is drawn the same way."""
    key = layer(config, index).drawing_key
    return next(l.index for l in layers(config) if l.drawing_key == key)  # noqa: E741


def opened(view: View, groups: frozenset[str]) -> frozenset[str]:
    """Groups that are open in the view of one layer: a variant opens with those it takes the place of."""
    variants = {n.variant for n in view.nodes if n.id in groups and n.variant}
    return groups | {n.id for n in view.nodes if n.variant in variants and n.id in block_spec.groups()}


def nearest_visible(facts: Facts, block: str, index: int) -> str:
    """The block itself when the layer has it, else the variant that the layer has in its place."""
    view = facts.view
    parent = {n.id: n.parent for n in view.nodes}
    while block in parent and block != LAYER and LAYER in _above(parent, block):
        if index in facts.block(block).layers:
            return block
        variant = next(n.variant for n in view.nodes if n.id == block)
        others = [n.id for n in view.nodes if variant and n.variant == variant]
        if present := [n for n in others if index in facts.block(n).layers]:
            return present[0]
        block = parent[block]
    return block


def _above(parent: dict[str, str | None], block: str) -> list[str]:
    above = []
    while parent.get(block):
        above.append(block := parent[block])
    return above


def view_of(facts: Facts, index: int) -> View:
    """The view with one layer in it; those before and after are one box each."""
    view, drawn = facts.view, layer(facts.config, index)
    inside = {LAYER, *view.inside(LAYER)}
    absent = {n for n in inside if index not in facts.block(n).layers}
    nodes = [n for n in view.nodes if n.id not in absent]
    after = max(i for i, n in enumerate(nodes) if n.id in inside) + 1
    others = (
        " They read the block store as well, and write to it at each block start." if drawn.blocks else ""
    )
    if index < drawn.last:
        nodes.insert(after, Node(LATER, io=True, title=WIDEST, sub=WIDEST, text=f"The layers after.{others}"))
    if index > 0:
        before = next(i for i, n in enumerate(nodes) if n.id == LAYER)
        text = f"The layers before.{others}"
        nodes.insert(before, Node(EARLIER, io=True, title=WIDEST, sub=WIDEST, text=text))
    joined = [e for e in view.edges if not absent & {e.source, e.target}]
    touching = inside | {STORE}
    edges = [_in_layer(e, drawn, inside, facts) if touching & {e.source, e.target} else e for e in joined]
    handed_on = [_to_later(e, facts) for e in joined if _is_handed_on(e, inside) and index < drawn.last]
    return replace(view, nodes=tuple(nodes), edges=tuple(e for e in (*edges, *handed_on) if e))


def _in_layer(edge: Edge, drawn: Layer, inside: set[str], facts: Facts) -> Edge | None:
    """What an edge of the stack is for this layer."""
    if edge.when and (edge.when == "starts_block") != drawn.starts_block:
        return None
    match edge.reach:
        case "first" if drawn.index:
            return replace(edge, target=EARLIER) if edge.target in inside else None
        case "previous" if not drawn.index:
            return None
        case "previous":
            label = "stored" if edge.target == STORE else edge.label
            return replace(edge, source=EARLIER, shape=_shape(edge, facts), loop=False, label=label)
        case "last" if drawn.index < drawn.last:
            return replace(edge, source=LATER, shape=_shape(edge, facts))
        case "before" if drawn.attn_candidates <= 1:
            return None
    return edge


def _is_handed_on(edge: Edge, inside: set[str]) -> bool:
    return edge.reach == "previous" and {edge.source, edge.target} <= inside


def _to_later(edge: Edge, facts: Facts) -> Edge:
    return replace(edge, target=LATER, loop=False, when="")


def _shape(edge: Edge, facts: Facts) -> str:
    return edge.shape or next(iter(facts.blocks[edge.source].out.values()))


def layer_texts(facts: Facts, index: int) -> dict[str, dict[str, str]]:
    """The texts in the drawing of this layer that differ from those drawn alike, by box."""
    drawn, kinds = layer(facts.config, index), facts.config.kinds
    block = f"AttnRes block {drawn.block + 1} of {drawn.blocks}" if drawn.blocks else drawn.variant
    texts = {LAYER: {"title": drawn.title, "sub": block}}
    if drawn.blocks:
        texts["attn_mix"] = _row(_reads(drawn.attn_candidates))
        texts["ffn_mix"] = _row(_reads(drawn.ffn_candidates))
        texts[STORE] = _row(f"{drawn.ffn_candidates - 1} stored at this layer")
    if drawn.blocks and drawn.starts_block:
        texts["attn_sum"] = _row(f"a new sum, block {drawn.block + 1} of {drawn.blocks}")
    if index > 0:
        texts[EARLIER] = {"title": _span(0, index - 1), **_row(_count(kinds[:index]))}
    if index < drawn.last:
        texts[LATER] = {"title": _span(index + 1, drawn.last), **_row(_count(kinds[index + 1 :]))}
    return texts


def _row(text: str) -> dict[str, str]:
    return {"sub": text, "row": text}


def _reads(candidates: int) -> str:
    return f"softmax over {candidates} candidates" if candidates > 1 else "1 candidate: passed on"


def _span(first: int, last: int) -> str:
    return f"Layer {first}" if first == last else f"Layers {first} to {last}"


def _count(kinds: tuple[str, ...]) -> str:
    parts = [f"{kinds.count(k)} {name}" for k, name in NAMES.items() if k in kinds]
    return " + ".join(parts)

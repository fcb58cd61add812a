"""What is chosen inside or beside a block: a tensor, an operation, or an arrow to or from it."""

from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import STEP, Facts
from k3scope.diagrams.facts.operations import Op
from k3scope.diagrams.scene.block_contents import Tensor, contents
from k3scope.diagrams.scene.edge_values import EdgeValues, values_by_edge
from k3scope.diagrams.spec.shapes import Step

TO, FROM = "to.", "from."  # an arrow is named by its other end: "to.kda_delta_rule", "from.tokens"
Detail = Tensor | Op | list[EdgeValues] | None


def detail(facts: Facts, block: str, part: str, layer: int | None = None, step: Step = STEP) -> Detail:
    """None when the block has no such part."""
    if part.startswith(TO):
        return _between(facts, block, part.removeprefix(TO), step) or None
    if part.startswith(FROM):
        return _between(facts, part.removeprefix(FROM), block, step) or None
    own = contents(facts, block, layer)
    return next((p for p in (*own.tensors, *own.ops) if p.id == part), None)


def _between(facts: Facts, source: str, target: str, step: Step) -> list[EdgeValues]:
    """The arrows between two boxes; a closed group or the other layers stand for what is in them."""
    sources, targets = _inside(facts, source), _inside(facts, target)
    between = []
    for ends, several in values_by_edge(facts, step).items():
        a, b = ends.split(">")
        if a in sources and b in targets:
            between += [values for values in several if values not in between]
    return between


def _inside(facts: Facts, box: str) -> set[str]:
    if box == stack.EARLIER:
        return {"token_embedding", "splice", "ffn_sum"}
    if box == stack.LATER:
        return {"ffn_sum", *facts.view.children(stack.LAYER)}
    return {box, *facts.view.inside(box)}

"""What an arrow carries: which values, their shape in letters and in numbers, their type, their bytes."""

from dataclasses import dataclass
from math import prod

from k3scope.diagrams.facts import operations
from k3scope.diagrams.facts.block_facts import STEP, Facts
from k3scope.diagrams.facts.stack import EARLIER, LATER
from k3scope.diagrams.spec import block_spec, formula
from k3scope.diagrams.spec.shapes import Step
from k3scope.model.checkpoint.tensor_layout import SIZE

NAMES = {"I64": "int64", "I32": "int32"}
WIDTHS = SIZE | {"I64": 8, "I32": 4}


@dataclass(frozen=True)
class EdgeTensor:
    """One tensor on an arrow."""

    name: str  # the point of the source that gives it; "" when there is one only
    symbolic: str
    concrete: str
    dtype: str
    bytes: int


@dataclass(frozen=True)
class EdgeValues:
    """One arrow with all that it carries."""

    source: str  # titles
    target: str
    text: str
    values: tuple[EdgeTensor, ...]

    @property
    def bytes(self) -> int:
        return sum(v.bytes for v in self.values)


def values_by_edge(facts: Facts, step: Step = STEP) -> dict[str, list[EdgeValues]]:
    """Every arrow by the ids of its ends, "a>b"; what AttnRes stores is one sum at a time."""
    by_ends: dict[str, list[EdgeValues]] = {}
    for edge in facts.view.edges:
        values = _values(facts, edge, step)
        same = by_ends.setdefault(f"{edge.source}>{edge.target}", [])
        if values not in same:
            same.append(values)
    return by_ends


def dtypes(facts: Facts, edge: block_spec.Edge) -> str:
    """The type of what an arrow carries as a drawing writes it: "bf16"; several where its tensors differ."""
    source = "ffn_sum" if edge.source in (EARLIER, LATER) else edge.source
    names = [edge.points[0]] if edge.points and edge.shape else [name for name, _ in _given(facts, edge)]
    types = [_dtype(facts, source, name) for name in names]
    return ", ".join(NAMES.get(d, d.lower()) for d in dict.fromkeys(types))


def _dtype(facts: Facts, source: str, name: str) -> str:
    block = facts.blocks.get(source)
    if block is None:
        return "BF16" if source == "image" else "I64"
    return operations.types(facts)[source, name if name in block.out else next(iter(block.out))]


def _values(facts: Facts, edge: block_spec.Edge, step: Step) -> EdgeValues:
    titles = {b.id: b.title for b in facts.blocks.values()} | {
        n.id: n.title for n in facts.view.nodes if n.io
    }
    values = tuple(_tensor(facts, edge, step, name, shape) for name, shape in _given(facts, edge))
    return EdgeValues(titles[edge.source], titles[edge.target], edge.label, values)


def _given(facts: Facts, edge: block_spec.Edge) -> list[tuple[str, str]]:
    """Points and shapes of the tensors on an arrow; a role with several instances gives as many."""
    if edge.shape:
        return [("", edge.shape)]
    block = facts.blocks[edge.source]
    if points := [p for p in edge.points if p in block.out]:
        return [(p, block.out[p]) for p in points]
    shapes = list(block.out.items())
    names = edge.points or _instances(facts, block)
    if len(names) < 2:
        return [("" if len(shapes) == 1 else point, shape) for point, shape in shapes]
    return [(name, shape) for name in names for _, shape in shapes]


def _instances(facts: Facts, block: block_spec.Block) -> list[str]:
    """Names of the instances that stand side by side in one layer."""
    paths = facts.instances(block)
    owner = paths[0].rpartition(".")[0]
    return [p.rpartition(".")[2] for p in paths if p.rpartition(".")[0] == owner] if len(block.at) > 1 else []


def _tensor(facts: Facts, edge: block_spec.Edge, step: Step, name: str, shape: str) -> EdgeTensor:
    symbolic, concrete = facts.shape(shape, "", step, edge.context)
    dtype = _dtype(facts, edge.source, name)
    numbers = formula.shape(step.symbolic(shape, edge.context), facts.sizes | step.sizes)
    return EdgeTensor(name, symbolic, concrete, dtype, prod(numbers) * WIDTHS[dtype])

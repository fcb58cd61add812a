"""The facts of a block as records: what the page, the command line and the drawing share."""

from dataclasses import dataclass

from k3scope.diagrams.facts.code_listing import Listing
from k3scope.diagrams.spec.citations import Citation


@dataclass(frozen=True)
class SymbolFact:
    """A letter of the equation with what it stands for in the drawn model."""

    symbol: str
    text: str
    name: str  # the point, parameter or Config field; "" for one defined by the equation
    value: str  # of a Config field
    shape: tuple[str, str]  # symbolic and concrete, or ("", "")


@dataclass(frozen=True)
class ParameterRow:
    """One line of the ledger."""

    id: str
    title: str
    kind: str
    formula: str
    filled: str
    per_instance: int
    count: int
    total: int
    share: float
    bytes: int  # of all instances in the official layout


@dataclass(frozen=True)
class BlockFacts:
    """What the inspector shows of one block; numbers belong to the drawn model."""

    id: str
    title: str
    kind: str
    sub: str
    summary: str
    equation: str
    symbols: list[SymbolFact]
    notes: str
    others: list[dict]
    sources: list[Citation]
    confidence: str
    listings: list[Listing]
    legend: list[tuple[str, str]]
    group: bool
    params_formula: str
    params_filled: str
    per_instance: int | None  # None when the instances differ
    count: int
    total: int
    share: float
    where: str
    layers: list[int]
    inputs: list[tuple[str, str, str]]  # title of the source, symbolic, concrete
    outputs: list[tuple[str, str, str]]  # point, symbolic, concrete
    tensors: list[tuple[str, tuple[int, ...], int]]

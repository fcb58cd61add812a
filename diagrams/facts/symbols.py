"""Where a letter of an equation lives: its box in the drawing, its lines of code, its values after a run."""

import re
from dataclasses import dataclass
from functools import lru_cache

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import is_parameter, resolve
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.block_spec import Block, Symbol


@dataclass(frozen=True)
class SymbolLocation:
    """What there is to light up for one symbol; everything is empty for a quantity of the equation alone."""

    block: str = ""  # the one block whose point or parameter it is
    title: str = ""
    chain: tuple[str, ...] = ()  # that block, then the groups around it: the first one drawn lights up
    names: tuple[str, ...] = ()  # attributes under which code mentions it
    live: bool = False  # a run has values for it


@lru_cache(maxsize=8)
def owners(facts: Facts) -> dict[str, str]:
    """The block of every point and parameter, by full path; a leaf block before the group around it."""
    groups = block_spec.groups()
    owner: dict[str, str] = {}
    for block in sorted(facts.blocks.values(), key=lambda b: b.id in groups):
        for path in facts.instances(block):
            for name in (*block.leaves, *block.out):
                owner.setdefault(resolve(path, name), block.id)
    return owner


def owner_of(facts: Facts, path: str, default: str) -> str:
    """The block that a path belongs to; one that no block lists is inner to the `default`."""
    table = owners(facts)
    return table.get(path) or table.get(f"{path}.weight") or default


def locations(facts: Facts, block_id: str) -> list[SymbolLocation]:
    """One location per symbol of the block's equation, in their order."""
    block = facts.blocks[block_id]
    return [_location(facts, block, symbol) for symbol in block.symbols]


def names_in(line: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the names that a line of code mentions as an attribute."""
    return tuple(n for n in names if re.search(rf"\.{re.escape(n)}\b", line))


def _location(facts: Facts, block: Block, symbol: Symbol) -> SymbolLocation:
    if symbol.is_ == "local":
        return SymbolLocation()
    if symbol.is_ in facts.sizes:
        return SymbolLocation(names=(symbol.is_.removeprefix("vit_"),))
    path = resolve(facts.instances(block)[-1], symbol.is_)
    owner = owner_of(facts, path, block.id)
    return SymbolLocation(
        block=owner,
        title=facts.blocks[owner].title,
        chain=_chain(owner),
        names=_names(path, symbol.is_),
        live=not is_parameter(facts.model, path),
    )


def _chain(block_id: str) -> tuple[str, ...]:
    parents = {node.id: node.parent for node in block_spec.view("model").nodes}
    chain = [block_id]
    while parent := parents.get(chain[-1]):
        chain.append(parent)
    return tuple(chain)


def _names(path: str, written: str) -> tuple[str, ...]:
    """The attribute that holds it; a bare "weight" also goes by the name of its module."""
    parts = [part for part in path.split(".") if not part.isdigit()]
    if parts[-1] != "weight":
        return (parts[-1],)
    return ("weight", parts[-2]) if written == "weight" else (parts[-2],)

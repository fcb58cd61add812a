"""Derivations: why a block's equation is what it is, one Markdown file per block worth deriving."""

import re
from functools import cache
from pathlib import Path

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import formula

FOLDER = Path(__file__).parents[1] / "derivations"


@cache
def texts() -> dict[str, str]:
    """The texts as they stand in the files, by block; numbers of a model as {{formula}}."""
    return {p.stem: p.read_text(encoding="utf-8") for p in sorted(FOLDER.glob("*.md"))}


def derivation(facts: Facts, block_id: str) -> str:
    """The text with the numbers of a model; "" without one, or when the model lacks a size it speaks of."""
    text = texts().get(block_id, "") if facts.blocks[block_id].derived else ""
    needed = {name for part in _formulas(text) for name in formula.names(part)}
    if needed - facts.sizes.keys():
        return ""
    return re.sub(r"\{\{([^{}]+)\}\}", lambda m: f"{formula.evaluate(m[1], facts.sizes):,}", text)


def _formulas(text: str) -> list[str]:
    return re.findall(r"\{\{([^{}]+)\}\}", text)

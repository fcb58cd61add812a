"""Put two models side by side: fields that differ, parameters by block, caches."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k3scope.diagrams.cost.compare_models import Comparison, ModelPair


def arguments(parser) -> None:
    parser.add_argument("a", metavar="MODEL_A", help="preset, config.json, checkpoint folder or its headers")
    parser.add_argument("b", metavar="MODEL_B", help="the one beside it, named alike")
    parser.add_argument("--format", choices=["table", "json"], default="table")


def run(options) -> None:
    from k3scope.diagrams.cost.compare_models import compare
    from k3scope.diagrams.facts.block_facts import Facts

    a, b = Facts.of(options.a), Facts.of(options.b)
    comparison = compare(a, b)
    if options.format == "json":
        print(json.dumps({"a": a.name, "b": b.name} | dataclasses.asdict(comparison), indent=2))
    else:
        _table(comparison, a.name, b.name)


def _table(comparison: Comparison, a: str, b: str) -> None:
    _print([("", a, b, "difference", "ratio"), *map(_cells, comparison.totals)])
    different = [f for f in comparison.fields if not f.same]
    print(f"\nfields that differ, {len(different)} of {len(comparison.fields)}")
    _print([("", a, b, ""), *((f.name, f.a, f.b, f.meaning) for f in different)], left=(0, 3))
    print("\nparameters by block")
    _print([("", a, b, "difference", "ratio"), *map(_cells, comparison.blocks)])


def _cells(pair: ModelPair) -> tuple[str, ...]:
    counts = ["none" if n is None else f"{n:,}" for n in (pair.a, pair.b)]
    difference = "=" if pair.a == pair.b else f"{pair.difference:+,}"
    return pair.title, *counts, difference, "" if pair.ratio is None else f"{pair.ratio:.4g}"


def _print(rows: list[tuple[str, ...]], left: tuple[int, ...] = (0,)) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())

"""The guided tour: a list of stops, each a selection in the drawing with a few sentences about it."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

import yaml

from k3scope.diagrams.facts import provenance
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec, formula

FILE = Path(__file__).parents[1] / "tour.yaml"


@dataclass(frozen=True)
class Stop:
    """One stop as it is written; numbers in `text` and `layer` are formulas."""

    id: str
    title: str
    text: str
    select: str
    open: list[str]
    layer: str = ""
    fixed: bool = False  # the text is about that very layer
    view: str = "model"
    tab: str = "overview"
    shows: str = ""  # what the inspector scrolls to: a selector of the page
    needs: str = ""  # the one of `block_spec.PARTS` without which the stop makes no sense
    otherwise: str = ""  # what is selected where a model has no `select`
    ends: tuple[str, ...] = ()  # kinds of the last layers, where the text speaks of them


@cache
def all_stops() -> tuple[Stop, ...]:
    """All stops in order. ValueError names a stop whose block or groups do not exist."""
    stops = tuple(
        Stop(**raw | {"ends": tuple(raw.get("ends", ()))})
        for raw in yaml.safe_load(FILE.read_text(encoding="utf-8"))
    )
    for stop in stops:
        selected = {stop.select, stop.otherwise or stop.select}
        unknown = (selected - block_spec.blocks().keys()) | (set(stop.open) - block_spec.groups())
        if unknown:
            raise ValueError(
                f"tour.yaml: stop {stop.id!r} names {', '.join(sorted(unknown))}, which is no block"
            )
    return stops


def stops(facts: Facts) -> list[Stop]:
    """The stops that a model has, with its numbers."""
    sizes, kinds = provenance.sizes(facts), facts.config.kinds
    placed = [_placed(facts, s) for s in all_stops()]
    present = [s for s in placed if s.select in facts.blocks and facts.has(s.needs)]
    present = [s for s in present if kinds[len(kinds) - len(s.ends) :] == s.ends]
    filled = [_filled(stop, sizes) for stop in present]
    # of a layer that a short model lacks nothing is told; other stops show one that has the block
    told = [s for s in filled if not s.fixed or int(s.layer) < len(kinds)]
    return [replace(s, layer=_layer_with(facts, s)) for s in told]


def _placed(facts: Facts, stop: Stop) -> Stop:
    """A stop at the block that it selects, or at the other one, outside the stack."""
    absent = stop.select not in facts.blocks and stop.otherwise
    return replace(stop, select=stop.otherwise, open=[]) if absent else stop


def _layer_with(facts: Facts, stop: Stop) -> str:
    """The layer of a stop, or the first that has its block."""
    layers = facts.block(stop.select).layers
    return stop.layer if not stop.layer or not layers or int(stop.layer) in layers else str(layers[0])


def stop_query(stop: Stop, number: int) -> str:
    """The query of a link to a stop: everything it shows, and its number counted from 1."""
    shown = {"view": stop.view, "select": stop.select, "open": ",".join(stop.open)}
    return urlencode(shown | {"layer": stop.layer, "tab": stop.tab, "tour": number}, safe=",")


def _filled(stop: Stop, sizes: dict) -> Stop:
    layer = str(int(formula.evaluate(stop.layer, sizes))) if stop.layer else ""
    return Stop(**vars(stop) | {"text": formula.fill_braces(stop.text, sizes), "layer": layer})

"""The guided tour: a list of stops, each a selection in the drawing with a few sentences about it."""

from dataclasses import dataclass
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
    view: str = "model"
    tab: str = "overview"
    shows: str = ""  # what the inspector scrolls to: a selector of the page
    needs: str = ""  # the Config field without which the stop makes no sense


@cache
def all_stops() -> tuple[Stop, ...]:
    """All stops in order. ValueError names a stop whose block or groups do not exist."""
    stops = tuple(Stop(**raw) for raw in yaml.safe_load(FILE.read_text(encoding="utf-8")))
    for stop in stops:
        unknown = ({stop.select} - block_spec.blocks().keys()) | (set(stop.open) - block_spec.groups())
        if unknown:
            raise ValueError(
                f"tour.yaml: stop {stop.id!r} names {', '.join(sorted(unknown))}, which is no block"
            )
    return stops


def stops(facts: Facts) -> list[Stop]:
    """The stops that a model has, with its numbers."""
    sizes = provenance.sizes(facts)
    present = [s for s in all_stops() if s.select in facts.blocks and facts.has(s.needs)]
    return [_filled(stop, sizes) for stop in present]


def stop_query(stop: Stop, number: int) -> str:
    """The query of a link to a stop: everything it shows, and its number counted from 1."""
    shown = {"view": stop.view, "select": stop.select, "open": ",".join(stop.open)}
    return urlencode(shown | {"layer": stop.layer, "tab": stop.tab, "tour": number}, safe=",")


def _filled(stop: Stop, sizes: dict) -> Stop:
    layer = str(int(formula.evaluate(stop.layer, sizes))) if stop.layer else ""
    return Stop(**vars(stop) | {"text": formula.fill_braces(stop.text, sizes), "layer": layer})

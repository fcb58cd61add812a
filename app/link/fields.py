"""The keys of the link: the field of the state behind each, how its text is read, and its default.

A link is a contract. A key keeps its meaning; a better name takes its place only with the old one among the
`aliases`. A default belongs to a version: who changes one raises VERSION and writes what it was into
FORMER_DEFAULTS, so that older links still open what they opened.
"""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from k3scope.app.lab.lab_views import VIEWS as LAB_VIEWS
from k3scope.app.link import cost_point
from k3scope.diagrams.scene.graph import OPEN
from k3scope.diagrams.spec.shapes import MOST, PHASES
from k3scope.model.interventions.intervention import dumps, loads

VERSION = 1  # of the links that are written; a link that names none is of version 1
VERSION_KEY = "v"
# Defaults of a version that the next one changed: {1: {"T": 17}} when version 2 has another T.
FORMER_DEFAULTS: dict[int, dict[str, Any]] = {}

VIEWS = ("model", "lab", "ledger", "cost", "compare")
TABS = ("overview", "params", "code", "live")
LABS = tuple(LAB_VIEWS)
PLOTS = tuple(c.key for view in LAB_VIEWS.values() for slot in view.slots for c in slot.choices)
DETAIL_LEVELS = ("line", "engineer", "derivation")
CAMERA = re.compile(r"|-?[0-9]{1,5},-?[0-9]{1,5},[0-9](\.[0-9]{1,3})?")
EVERYTHING = "everything"  # opens groups, and blocks down to their tensors and operations
MAX_INTERVENTIONS = 2000  # characters; with more a link would not fit everywhere
MAX_NAME = 80  # characters of a name that is compared with those there are
MAX_GENERATED_IDS = 2048  # tokens after a prompt


@dataclass(frozen=True)
class LinkTargets:
    """What a link may name: models by name, the blocks and the number of layers of each, groups."""

    models: tuple[str, ...]
    blocks: dict[str, frozenset[str]] = field(default_factory=dict)  # by model
    groups: frozenset[str] = frozenset()
    layers: dict[str, int] = field(default_factory=dict)
    compared: tuple[str, ...] = ()  # what may stand beside the drawn model
    has_part: Callable[[str, str, str], bool] = lambda model, block, part: False


@dataclass(frozen=True)
class LinkField:
    """One key of the link. `read` gets the decoded text, what may be named and the values read so far.

    ValueError of `read` says why, in words for the page.
    """

    key: str
    name: str  # of the field of the state
    default: Any
    read: Callable[[str, LinkTargets, dict[str, Any]], Any]
    write: Callable[[Any], str] = str
    aliases: tuple[str, ...] = ()  # keys of older links, read and never written


def _one_of(names: Iterable[str], text: str, what: str) -> str:
    names = list(names)
    if text in names:
        return text
    near = difflib.get_close_matches(text[:MAX_NAME], names, 1)
    raise ValueError(f"there is no {what} of that name" + (f"; did you mean {near[0]}?" if near else ""))


def _model(text: str, targets: LinkTargets, _values) -> str:
    return _one_of(targets.models, text, "model")


def _model_or_none(text: str, targets: LinkTargets, _values) -> str:
    return _one_of(targets.models, text, "model") if text else ""


def _compared(text: str, targets: LinkTargets, _values) -> str:
    return _one_of(targets.compared or targets.models, text, "model") if text else ""


def _cost_point(text: str, _targets, _values) -> str:
    cost_point.parse(text)
    return text


def _block(text: str, targets: LinkTargets, values: dict[str, Any]) -> str:
    return _one_of(targets.blocks.get(values["model"], ()), text, "block") if text else ""


def _groups(text: str, targets: LinkTargets, values: dict[str, Any]) -> list[str]:
    allowed = targets.groups | targets.blocks.get(values["model"], frozenset())
    if text == EVERYTHING:
        return sorted(allowed)
    return list(dict.fromkeys(_one_of(allowed, name, "group") for name in text.split(",") if name))


def _part(text: str, targets: LinkTargets, values: dict[str, Any]) -> str:
    """Something inside the chosen block or an arrow beside it, by name."""
    if text and (len(text) > 80 or not targets.has_part(values["model"], values["select"], text)):
        raise ValueError("the chosen block has no such part")
    return text


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError("expected a whole number")
    return int(text)


def _layer(text: str, targets: LinkTargets, values: dict[str, Any]) -> int | None:
    if not text:
        return None
    number, layers = _number(text), targets.layers.get(values["model"])
    if layers is not None and number >= layers:
        raise ValueError(f"{values['model']} has layers 0 to {layers - 1}")
    return number


def _matching(pattern: str, expected: str):
    def read(text: str, _targets, _values) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected}")
        return text

    return read


def _choice(names: tuple[str, ...], what: str):
    return lambda text, _targets, _values: _one_of(names, text, what)


def _axis(name: str):
    def read(text: str, _targets, _values) -> int:
        number = _number(text)
        if not 1 <= number <= MOST[name]:
            raise ValueError(f"{name} is a number from 1 to {MOST[name]:,}")
        return number

    return read


def _switch(text: str, _targets, _values) -> bool:
    if text not in ("", "on"):
        raise ValueError("expected on, or nothing")
    return text == "on"


def _on(value: bool) -> str:
    return "on" if value else ""


def _camera(text: str, _targets, _values) -> str:
    """Middle of the stage in units of the drawing, and the zoom: "512,830,0.85"."""
    if not CAMERA.fullmatch(text):
        raise ValueError("expected a place and a zoom such as 512,830,0.85")
    return text


def _tour_stop(text: str, _targets, _values) -> int | None:
    """A stop of the tour, counted from 1."""
    return (_number(text) or None) if text else None


def _interventions(text: str, _targets, _values) -> str:
    if len(text) > MAX_INTERVENTIONS:
        raise ValueError(f"these are more than {MAX_INTERVENTIONS:,} characters of interventions")
    interventions = loads(text)
    return dumps(interventions) if interventions else ""


def _generated_ids(text: str, _targets, _values) -> list[int]:
    """Ids of the tokens after the prompt: 72,108."""
    ids = [_number(token) for token in text.split(",")] if text else []
    if len(ids) > MAX_GENERATED_IDS:
        raise ValueError(f"these are more than {MAX_GENERATED_IDS:,} tokens")
    return ids


def _lab_view(text: str, _targets, _values) -> str:
    """A view of the Lab and, after a colon, the layer of the model that ran: memory:5."""
    name, colon, layer = text.partition(":")
    _one_of(LABS, name, "view of the Lab")
    if colon:
        _number(layer)
    return text


def _plots(text: str, _targets, _values) -> list[str]:
    return [_one_of(PLOTS, name, "picture in the Lab") for name in text.split(",")] if text else []


def _index(text: str, _targets, _values) -> int | None:
    return _number(text) if text else None


FIELDS = (
    LinkField("model", "model", "kimi-k3", _model),
    LinkField("view", "view", "model", _choice(VIEWS, "view")),
    LinkField("select", "select", "", _block),
    LinkField("part", "part", "", _part),
    LinkField("open", "open", OPEN, _groups, ",".join),
    LinkField("layer", "layer", None, _layer),
    LinkField("phase", "phase", "prefill", _choice(PHASES, "phase")),
    LinkField("types", "types", False, _switch, _on),
    LinkField("B", "B", 1, _axis("B")),
    LinkField("T", "T", 17, _axis("T")),
    LinkField("with", "run_model", "", _model_or_none),
    LinkField("weights", "weights", "", _matching(r"[0-9a-f]{4,64}", "a short hash")),
    LinkField("prompt", "prompt", None, lambda text, _targets, _values: text),
    LinkField("more", "generated_ids", (), _generated_ids, lambda ids: ",".join(map(str, ids))),
    LinkField("run", "run_id", "", _matching(r"[a-z2-7]{12}", "twelve letters or digits")),
    LinkField("do", "interventions", "", _interventions),
    LinkField(
        "against", "baseline", "", _matching("plain|[a-z2-7]{12}", "plain, or twelve letters or digits")
    ),
    LinkField("lab", "lab_view", LABS[0], _lab_view),
    LinkField("plots", "plots", (), _plots, ",".join),
    LinkField("tab", "tab", "overview", _choice(TABS, "tab")),
    LinkField("token", "token", None, _index),
    LinkField("head", "head", None, _index),
    LinkField("compare", "compare", "", _compared),
    LinkField("at", "cost_point", cost_point.DEFAULT, _cost_point),
    LinkField("depth", "detail_level", "engineer", _choice(DETAIL_LEVELS, "depth")),
    LinkField("tour", "tour", None, _tour_stop),
    LinkField("camera", "camera", "", _camera),
)


def by_key() -> dict[str, LinkField]:
    """Every key that is read, with its field."""
    return {key: f for f in FIELDS for key in (f.key, *f.aliases)}


def defaults(version: int | None = None) -> dict[str, Any]:
    """The default of every field in links of a version, by name; the current one unless one is named."""
    values = {f.name: f.default for f in FIELDS}
    for older in range(VERSION - 1, (version or VERSION) - 1, -1):
        values |= FORMER_DEFAULTS[older]
    return values


DEFAULTS = defaults()

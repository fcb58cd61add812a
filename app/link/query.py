"""The link: a query string that brings a colleague to the same view, and back to a state."""

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote_plus

from k3scope.app.lab.lab_views import VIEWS as LAB_VIEWS
from k3scope.app.link import cost_point
from k3scope.diagrams.scene.graph import OPEN
from k3scope.diagrams.spec.shapes import MOST, PHASES
from k3scope.model.interventions.intervention import dumps, loads

VIEWS = ("model", "lab", "ledger", "cost", "compare")
TABS = ("overview", "params", "code", "live")
LABS = tuple(LAB_VIEWS)
PLOTS = tuple(c.key for view in LAB_VIEWS.values() for slot in view.slots for c in slot.choices)
DEPTHS = ("line", "engineer", "derivation")
VERSION = 1
CAMERA = re.compile(r"|-?[0-9]{1,5},-?[0-9]{1,5},[0-9](\.[0-9]{1,3})?")
EVERYTHING = "everything"  # opens groups, and blocks down to their tensors and operations
LONGEST_INTERVENTIONS = 2000  # characters of interventions; with more a link would not fit everywhere
MOST_MORE = 2048  # tokens after a prompt
LONG_PROMPT = 1000  # encoded characters; a longer one stays out of the link when a stored run holds it
LONGEST_PROMPT = 7000  # a longer one stays out in any case: proxies refuse a request line of 8 KB


@dataclass(frozen=True)
class Known:
    """What a link may name: models by name, the blocks and the number of layers of each, groups."""

    models: tuple[str, ...]
    blocks: dict[str, frozenset[str]] = field(default_factory=dict)  # by model
    groups: frozenset[str] = frozenset()
    layers: dict[str, int] = field(default_factory=dict)
    compared: tuple[str, ...] = ()  # what may stand beside the drawn model
    part: Callable[[str, str, str], bool] = lambda model, block, part: False  # whether a block has a part


@dataclass(frozen=True)
class Link:
    """A link that was read: every field's value, the keys of others as they stood, and what went wrong."""

    values: dict[str, Any]
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Field:
    """One key of the link. `read` gets the decoded text, what is known and the values read so far."""

    key: str
    name: str
    default: Any
    read: Callable[[str, Known, dict[str, Any]], Any]
    write: Callable[[Any], str] = str


def _one_of(names: Iterable[str], text: str, what: str) -> str:
    names = list(names)
    if text in names:
        return text
    near = difflib.get_close_matches(text, names, 1)
    raise ValueError(f"there is no {what} of that name" + (f"; did you mean {near[0]}?" if near else ""))


def _model(text: str, known: Known, _values) -> str:
    return _one_of(known.models, text, "model")


def _model_or_none(text: str, known: Known, _values) -> str:
    return _one_of(known.models, text, "model") if text else ""


def _compared(text: str, known: Known, _values) -> str:
    return _one_of(known.compared or known.models, text, "model") if text else ""


def _at(text: str, _known, _values) -> str:
    cost_point.read(text)
    return text


def _block(text: str, known: Known, values: dict[str, Any]) -> str:
    return _one_of(known.blocks.get(values["model"], ()), text, "block") if text else ""


def _groups(text: str, known: Known, values: dict[str, Any]) -> list[str]:
    may = known.groups | known.blocks.get(values["model"], frozenset())
    if text == EVERYTHING:
        return sorted(may)
    return list(dict.fromkeys(_one_of(may, part, "group") for part in text.split(",") if part))


def _part(text: str, known: Known, values: dict[str, Any]) -> str:
    """Something inside the chosen block or an arrow beside it, by name."""
    if text and (len(text) > 80 or not known.part(values["model"], values["select"], text)):
        raise ValueError("the chosen block has no such part")
    return text


def _number(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError("expected a whole number")
    return int(text)


def _layer(text: str, known: Known, values: dict[str, Any]) -> int | None:
    if not text:
        return None
    number, layers = _number(text), known.layers.get(values["model"])
    if layers is not None and number >= layers:
        raise ValueError(f"{values['model']} has layers 0 to {layers - 1}")
    return number


def _matching(pattern: str, expected: str):
    def read(text: str, _known, _values) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected}")
        return text

    return read


def _choice(names: tuple[str, ...], what: str):
    return lambda text, _known, _values: _one_of(names, text, what)


def _axis(name: str):
    def read(text: str, _known, _values) -> int:
        number = _number(text)
        if not 1 <= number <= MOST[name]:
            raise ValueError(f"{name} is a number from 1 to {MOST[name]:,}")
        return number

    return read


def _switch(text: str, _known, _values) -> bool:
    if text not in ("", "on"):
        raise ValueError("expected on, or nothing")
    return text == "on"


def _on(value: bool) -> str:
    return "on" if value else ""


def _camera(text: str, _known, _values) -> str:
    """Middle of the stage in units of the drawing, and the zoom: "512,830,0.85"."""
    if not CAMERA.fullmatch(text):
        raise ValueError("expected a place and a zoom such as 512,830,0.85")
    return text


def _stop(text: str, _known, _values) -> int | None:
    """A stop of the tour, counted from 1."""
    return (_number(text) or None) if text else None


def _changes(text: str, _known, _values) -> str:
    if len(text) > LONGEST_INTERVENTIONS:
        raise ValueError(f"these are more than {LONGEST_INTERVENTIONS:,} characters of interventions")
    changes = loads(text)
    return dumps(changes) if changes else ""


def _more(text: str, _known, _values) -> list[int]:
    """Ids of the tokens after the prompt: 72,108."""
    found = [_number(part) for part in text.split(",")] if text else []
    if len(found) > MOST_MORE:
        raise ValueError(f"these are more than {MOST_MORE:,} tokens")
    return found


def _lab(text: str, _known, _values) -> str:
    """A view of the Lab and, after a colon, the layer of the model that ran: memory:5."""
    name, colon, layer = text.partition(":")
    _one_of(LABS, name, "view of the Lab")
    if colon:
        _number(layer)
    return text


def _plots(text: str, _known, _values) -> list[str]:
    return [_one_of(PLOTS, name, "picture in the Lab") for name in text.split(",")] if text else []


def _index(text: str, _known, _values) -> int | None:
    return _number(text) if text else None


FIELDS = (
    Field("model", "model", "kimi-k3", _model),
    Field("view", "view", "model", _choice(VIEWS, "view")),
    Field("select", "select", "", _block),
    Field("part", "part", "", _part),
    Field("open", "open", OPEN, _groups, ",".join),
    Field("layer", "layer", None, _layer),
    Field("phase", "phase", "prefill", _choice(PHASES, "phase")),
    Field("types", "types", False, _switch, _on),
    Field("B", "B", 1, _axis("B")),
    Field("T", "T", 17, _axis("T")),
    Field("with", "run_model", "", _model_or_none),
    Field("weights", "weights", "", _matching(r"[0-9a-f]{4,64}", "a short hash")),
    Field("prompt", "prompt", None, lambda text, _known, _values: text),
    Field("more", "generated_ids", (), _more, lambda ids: ",".join(map(str, ids))),
    Field("run", "run_id", "", _matching(r"[a-z2-7]{12}", "twelve letters or digits")),
    Field("do", "interventions", "", _changes),
    Field("against", "baseline", "", _matching("plain|[a-z2-7]{12}", "plain, or twelve letters or digits")),
    Field("lab", "lab_view", LABS[0], _lab),
    Field("plots", "plots", (), _plots, ",".join),
    Field("tab", "tab", "overview", _choice(TABS, "tab")),
    Field("token", "token", None, _index),
    Field("head", "head", None, _index),
    Field("compare", "compare", "", _compared),
    Field("at", "cost_point", cost_point.DEFAULT, _at),
    Field("depth", "detail_level", "engineer", _choice(DEPTHS, "depth")),
    Field("tour", "tour", None, _stop),
    Field("camera", "camera", "", _camera),
)
DEFAULTS = {f.name: f.default for f in FIELDS}
_KEYS = {f.key for f in FIELDS}


def _decode(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("not valid UTF-8") from None


def _encode(text: str) -> str:
    return quote(text, safe=",.~-_", errors="replace")


def _problem(part: str, error: Exception) -> str:
    shown = part if len(part) <= 60 else part[:59] + "…"
    return f"“{shown}” could not be read: {error}."


def _read_all(parts: dict[str, str], known: Known, values: dict[str, Any]) -> list[str]:
    """Put what the parts say into the values; the problems found, as sentences."""
    problems = []
    for f in FIELDS:
        if f.key in parts:
            try:
                values[f.name] = f.read(_decode(parts[f.key].partition("=")[2]), known, values)
            except ValueError as error:
                problems.append(_problem(parts[f.key], error))
    return problems


def parse(search: str, known: Known) -> Link:
    """Read a query string, with or without its question mark. What cannot be read keeps its default."""
    parts, unknown = {}, []
    for part in filter(None, search.removeprefix("?").split("&")):
        key = part.partition("=")[0]
        if key in _KEYS or key == "v":
            parts[key] = part
        else:
            unknown.append(part)
    values = {f.name: list(f.default) if isinstance(f.default, tuple) else f.default for f in FIELDS}
    problems = _read_all(parts, known, values)
    if "v" in parts and parts["v"] != f"v={VERSION}":
        problems.append(_problem(parts["v"], ValueError("this link is from another version of k3scope")))
    return Link(values, tuple(unknown), tuple(problems))


def changes(search: str, known: Known, values: dict[str, Any]) -> dict[str, Any]:
    """Only the fields that a piece of a link names, read against the values there are, and `problems`."""
    parts = {part.partition("=")[0]: part for part in search.split("&")}
    after = dict(values)
    if "select" in parts:
        parts = {"part": "part="} | parts  # a part belongs to the block that was chosen with it
    problems = _read_all(parts, known, after)
    return {f.name: after[f.name] for f in FIELDS if f.key in parts} | {"problems": problems}


def format(values: dict[str, Any], unknown: Iterable[str] = ()) -> str:
    """The query string of a state: keys in a fixed order, defaults left out, the keys of others kept."""
    parts = []
    for f in FIELDS:
        value = values.get(f.name, f.default)
        value = tuple(value) if isinstance(value, list) else value
        if value != f.default or type(value) is not type(f.default):
            parts.append(f"{f.key}={_encode(f.write(value))}")
    parts += unknown
    return "?" + "&".join(parts) if parts else ""


def shareable(values: dict[str, Any]) -> dict[str, Any]:
    """The values without a long prompt or many tokens after it: a stored run brings them back."""
    most = LONG_PROMPT if values.get("run_id") else LONGEST_PROMPT
    sizes = {
        "prompt": len(_encode(values.get("prompt") or "")),
        "generated_ids": 4 * len(values.get("generated_ids") or ()),
    }
    return values | {name: DEFAULTS[name] for name, size in sizes.items() if size > most}

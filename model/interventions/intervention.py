"""Interventions in a forward pass, described so exactly that a link can repeat them."""

import difflib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

ATTENTION, FFN, OUTPUT = "attention", "FFN", "output"
# what can be changed -> what can be done to it
KINDS = {
    "head": ("zero", "mean", "noise", "patch"),
    "expert": ("zero", "mean", "noise", "patch"),
    "mix": ("zero", "mean", "noise", "patch"),
    "sublayer": ("zero", "mean", "noise", "patch"),
    "token": ("zero", "mean", "noise", "patch"),
    "routes": ("force", "patch"),
    "decay": ("clamp",),
}
SITES = {"mix": (ATTENTION, FFN, OUTPUT), "sublayer": (ATTENTION, FFN)}
INDEXED = ("head", "expert", "mix")
EVERY_LAYER = ("token", "routes", "decay")  # what layer None means something for


@dataclass(frozen=True)
class Intervention:
    """One intervention. `interventions.edits.edits` turns a list of them into edits of a pass.

    what      do                        what is replaced
    head      zero mean noise patch     output of attention head `index`, gated, before the output projection
    expert    zero mean noise patch     output of routed expert `index`, for the tokens that chose it
    mix       zero mean noise patch     weight of candidate `index` of the mix at `place`; the others scale
                                        so that the weights sum to 1 (layer None: the output mix)
    sublayer  zero mean noise patch     output of the attention or the FFN
    token     zero mean noise patch     running sum after `layer` (None: the embedding) at `tokens`
    routes    force patch               chosen experts: `experts`, or those of run `run` (None: every layer)
    decay     clamp                     share of the memory retained per token, held in [low, high]; of head
                                        `index` or all (None: every layer)

    `mean` is over the tokens of the run itself, `noise` is Gaussian with `amount` times the RMS of what it is
    added to, `patch` takes the value of run `run` at the same position. `tokens`: positions, () for all.
    """

    what: str
    do: str
    layer: int | None = None
    index: int | None = None
    place: str = ""
    tokens: tuple[int, ...] = ()
    amount: float = 1.0
    low: float = 0.0
    high: float = 1.0
    experts: tuple[int, ...] = ()
    run: str = ""
    seed: int = 0

    def __post_init__(self):
        object.__setattr__(self, "tokens", tuple(self.tokens))
        object.__setattr__(self, "experts", tuple(self.experts))
        _check(self)

    def __str__(self) -> str:
        """The intervention as a phrase."""
        subject = f"{self.what} {self.index}" if self.index is not None else self.what
        in_layer = "" if self.layer is None else f" in layer {self.layer}"
        at_tokens = f" at token {', '.join(map(str, self.tokens))}" if self.tokens else ""
        site = f"{self.place} " if self.place else ""
        return f"{self.do} {site}{subject}{in_layer}{at_tokens}{_details(self)}"


def dumps(interventions: Iterable[Intervention]) -> str:
    """The interventions as JSON: one text for one list, what is default left out."""
    return json.dumps(
        [_plain(intervention) for intervention in interventions], sort_keys=True, separators=(",", ":")
    )


def loads(text: str) -> tuple[Intervention, ...]:
    """Read what `dumps` wrote. ValueError names what cannot be read."""
    try:
        rows = json.loads(text or "[]")
    except RecursionError:
        raise ValueError("interventions are a JSON list of objects, not lists in lists") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"interventions are not JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError('interventions are a JSON list of objects, such as [{"what": "head", ...}]')
    return tuple(_read(row) for row in rows)


def _read(row: dict) -> Intervention:
    fields_by_name = {f.name: f for f in fields(Intervention)}
    for name in row:
        if name not in fields_by_name:
            raise ValueError(f"an intervention has no {name!r}{_near(name, fields_by_name)}")
    if missing := {"what", "do"} - row.keys():
        raise ValueError(f"an intervention needs {' and '.join(sorted(missing))}: {row}")
    for name, value in row.items():
        if not _fits(fields_by_name[name].type, value):
            raise ValueError(f"{name} of an intervention is {value!r}; expected {fields_by_name[name].type}")
    return Intervention(**row)


def _fits(expected, value) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    if expected is str:
        return isinstance(value, str)
    if expected is int:
        return number
    if expected is float:
        return number or isinstance(value, float)
    if expected == int | None:
        return number or value is None
    return isinstance(value, list) and all(_fits(int, item) for item in value)


def _plain(intervention: Intervention) -> dict:
    defaults = {f.name: f.default for f in fields(Intervention)}
    return {name: value for name, value in asdict(intervention).items() if value != defaults[name]}


def _check(intervention: Intervention) -> None:
    """ValueError for what makes no sense whatever the model."""
    what, do = intervention.what, intervention.do
    if what not in KINDS:
        raise ValueError(f"an intervention cannot change {what!r}; expected {', '.join(KINDS)}")
    if do not in KINDS[what]:
        raise ValueError(f"{what}: there is no {do!r}; expected {', '.join(KINDS[what])}")
    if what in SITES and intervention.place not in SITES[what]:
        raise ValueError(f"{what}: place is {intervention.place!r}; expected {', '.join(SITES[what])}")
    if what in INDEXED and intervention.index is None:
        raise ValueError(f"{what}: index is missing")
    if intervention.layer is None and what not in EVERY_LAYER and intervention.place != OUTPUT:
        raise ValueError(f"{what}: layer is missing")
    if what == "token" and not intervention.tokens:
        raise ValueError("token: tokens are missing, the positions to change")
    if do == "patch" and not intervention.run:
        raise ValueError(f"{what}: patch needs the run to take values from")
    if not math.isfinite(intervention.amount):
        raise ValueError(f"{what}: amount is {intervention.amount}; expected a finite number")
    if not 0 <= intervention.low <= intervention.high <= 1:
        raise ValueError(
            f"{what}: low {intervention.low} and high {intervention.high} are shares, 0 <= low <= high <= 1"
        )


def _details(intervention: Intervention) -> str:
    match intervention.do:
        case "noise":
            return f" of {intervention.amount:g} RMS"
        case "patch":
            return f" from run {intervention.run}"
        case "clamp":
            return f" to {intervention.low:g}..{intervention.high:g}"
        case "force":
            return f" to {', '.join(map(str, intervention.experts))}"
    return ""


def _near(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {close[0]!r}?" if close else ""

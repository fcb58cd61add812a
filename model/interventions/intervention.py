"""Changes to a forward pass, said so exactly that a link can repeat them."""

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
PLACES = {"mix": (ATTENTION, FFN, OUTPUT), "sublayer": (ATTENTION, FFN)}
INDEXED = ("head", "expert", "mix")
EVERY_LAYER = ("token", "routes", "decay")  # what layer None means something for


@dataclass(frozen=True)
class Intervention:
    """One change. `edits` of `model.edits` turns a list of them into edits of a pass.

    what      do                        what is replaced
    head      zero mean noise patch     output of attention head `index`, gated, before the output projection
    expert    zero mean noise patch     output of routed expert `index`, for the tokens that chose it
    mix       zero mean noise patch     weight of candidate `index` of the mix at `place`; the others scale
                                        so that the weights sum to 1 (layer None: the output mix)
    sublayer  zero mean noise patch     output of the attention or the FFN
    token     zero mean noise patch     running sum after `layer` (None: the embedding) at `tokens`
    routes    force patch               chosen experts: `experts`, or those of run `run` (None: every layer)
    decay     clamp                     share of the memory kept per token, held in [low, high]; head `index`
                                        or all (None: every layer)

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
        """The change as a phrase."""
        thing = f"{self.what} {self.index}" if self.index is not None else self.what
        where = "" if self.layer is None else f" in layer {self.layer}"
        at = f" at token {', '.join(map(str, self.tokens))}" if self.tokens else ""
        return f"{self.do} {self.place + ' ' if self.place else ''}{thing}{where}{at}{_details(self)}"


def dumps(changes: Iterable[Intervention]) -> str:
    """The changes as JSON: one text for one list, what is default left out."""
    return json.dumps([_plain(change) for change in changes], sort_keys=True, separators=(",", ":"))


def loads(text: str) -> tuple[Intervention, ...]:
    """Read what `dumps` wrote. ValueError says what it is that cannot be read."""
    try:
        rows = json.loads(text or "[]")
    except json.JSONDecodeError as error:
        raise ValueError(f"interventions are not JSON: {error}") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError('interventions are a JSON list of objects, such as [{"what": "head", ...}]')
    return tuple(_read(row) for row in rows)


def _read(row: dict) -> Intervention:
    known = {f.name: f for f in fields(Intervention)}
    for name in row:
        if name not in known:
            raise ValueError(f"an intervention has no {name!r}{_near(name, known)}")
    if missing := {"what", "do"} - row.keys():
        raise ValueError(f"an intervention needs {' and '.join(sorted(missing))}: {row}")
    for name, value in row.items():
        if not _fits(known[name].type, value):
            raise ValueError(f"{name} of an intervention is {value!r}; expected {known[name].type}")
    return Intervention(**row)


def _fits(wanted, value) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    if wanted is str:
        return isinstance(value, str)
    if wanted is int:
        return number
    if wanted is float:
        return number or isinstance(value, float)
    if wanted == int | None:
        return number or value is None
    return isinstance(value, list) and all(_fits(int, item) for item in value)


def _plain(change: Intervention) -> dict:
    defaults = {f.name: f.default for f in fields(Intervention)}
    return {name: value for name, value in asdict(change).items() if value != defaults[name]}


def _check(change: Intervention) -> None:
    """ValueError for what makes no sense whatever the model."""
    what, do = change.what, change.do
    if what not in KINDS:
        raise ValueError(f"an intervention cannot change {what!r}; expected {', '.join(KINDS)}")
    if do not in KINDS[what]:
        raise ValueError(f"{what}: there is no {do!r}; expected {', '.join(KINDS[what])}")
    if what in PLACES and change.place not in PLACES[what]:
        raise ValueError(f"{what}: place is {change.place!r}; expected {', '.join(PLACES[what])}")
    if what in INDEXED and change.index is None:
        raise ValueError(f"{what}: index is missing")
    if change.layer is None and what not in EVERY_LAYER and change.place != OUTPUT:
        raise ValueError(f"{what}: layer is missing")
    if what == "token" and not change.tokens:
        raise ValueError("token: tokens are missing, the positions to change")
    if do == "patch" and not change.run:
        raise ValueError(f"{what}: patch needs the run to take values from")
    if not math.isfinite(change.amount):
        raise ValueError(f"{what}: amount is {change.amount}; expected a finite number")
    if not 0 <= change.low <= change.high <= 1:
        raise ValueError(f"{what}: low {change.low} and high {change.high} are shares, 0 <= low <= high <= 1")


def _details(change: Intervention) -> str:
    match change.do:
        case "noise":
            return f" of {change.amount:g} RMS"
        case "patch":
            return f" from run {change.run}"
        case "clamp":
            return f" to {change.low:g}..{change.high:g}"
        case "force":
            return f" to {', '.join(map(str, change.experts))}"
    return ""


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""

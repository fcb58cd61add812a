"""Two models side by side: fields, parameters by block, caches; and a config.json that somebody brings."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from k3scope.diagrams.cost import roofline
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.config_fields import MEANINGS
from k3scope.model.checkpoint.checkpoint import checked_config
from k3scope.model.config import Config
from k3scope.model.config_limits import check_drawn
from k3scope.model.files.json_file import parse_json
from k3scope.model.init import build

MISSING = "none"
LARGEST_FILE = 2**20  # bytes of what is pasted into the page; a folder may hold a larger one


@dataclass(frozen=True)
class FieldComparison:
    """A size of the Config in both models, as text."""

    name: str
    meaning: str
    a: str
    b: str

    @property
    def same(self) -> bool:
        return self.a == self.b


@dataclass(frozen=True)
class ModelPair:
    """One count in both models; None where a model has no such thing."""

    id: str
    title: str
    kind: str
    a: int | None
    b: int | None
    formula: tuple[str, str] = ("", "")

    @property
    def difference(self) -> int:
        return (self.a or 0) - (self.b or 0)

    @property
    def ratio(self) -> float | None:
        return self.a / self.b if self.a and self.b else None


@dataclass(frozen=True)
class Comparison:
    """Everything that differs between two models, and what does not."""

    fields: list[FieldComparison]
    totals: list[ModelPair]
    blocks: list[ModelPair]


def compare(a: Facts, b: Facts) -> Comparison:
    return Comparison(_fields(a.config, b.config), _totals(a, b), _blocks(a, b))


def read_config(text: str) -> Config:
    """The Config of an official config.json as text. ValueError: one sentence on what is wrong with it."""
    if len(text.encode(errors="replace")) > LARGEST_FILE:
        raise ValueError(f"the file is larger than {LARGEST_FILE // 1024:,} kB: no config.json is")
    try:
        raw = parse_json(text)
    except ValueError:
        raise ValueError("this is not valid JSON; expected the config.json of a checkpoint") from None
    config = checked_config(raw)
    check_drawn(*config.depths)
    return config


@lru_cache(maxsize=8)
def facts_of(config: Config, name: str) -> Facts:
    """Facts of a config that has no registered name. ValueError when no model can be built from it."""
    try:
        return Facts(name, build(config))
    except (TypeError, RuntimeError, OverflowError):
        raise ValueError("config.json: no model can be built from these sizes") from None


def _fields(a: Config, b: Config) -> list[FieldComparison]:
    left, right = _texts(a), _texts(b)
    names = [name for name in MEANINGS if name in left or name in right]
    return [FieldComparison(n, MEANINGS[n], left.get(n, MISSING), right.get(n, MISSING)) for n in names]


def _texts(c: Config) -> dict[str, str]:
    """Every field as a person reads it; those of a part that the model does not have are left out."""
    values = {name: getattr(c, name) for name in c.__dataclass_fields__ if name not in ("kinds", "vision")}
    if c.vision:
        values |= c.vision.sizes()
    texts = {"layers": str(c.layers), "kinds": pattern(c.kinds)}
    return texts | {name: _text(value) for name, value in values.items()}


def _text(value) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(f"{one:,}" for one in value) or MISSING
    return f"{value:,}" if isinstance(value, int) else str(value)


def pattern(kinds: tuple[str, ...]) -> str:
    """The order of the layers, repetitions counted: "23 × (3 KDA, MLA), MLA"."""
    first = _runs(kinds)[0][0]
    unit = kinds[: first + 1]  # one run and the first layer of the next
    times = 1
    while unit and kinds[times * len(unit) : (times + 1) * len(unit)] == unit:
        times += 1
    if times == 1:
        return _written(kinds)
    rest = kinds[times * len(unit) :]
    return f"{times} × ({_written(unit)})" + (f", {_written(rest)}" if rest else "")


def _runs(kinds: tuple[str, ...]) -> list[tuple[int, str]]:
    return [(len(list(alike)), kind) for kind, alike in groupby(kinds)]


def _written(kinds: tuple[str, ...]) -> str:
    return ", ".join(f"{n} {kind.upper()}" if n > 1 else kind.upper() for n, kind in _runs(kinds))


def _totals(a: Facts, b: Facts) -> list[ModelPair]:
    left, right = _numbers(a), _numbers(b)
    return [ModelPair(name, name, "structure", left[name], right[name]) for name in left]


def _numbers(f: Facts) -> dict[str, int | None]:
    t, c = f.totals, f.config
    return {
        "Parameters": t.total,
        "Text model": t.text,
        "Vision half": t.vision,
        "Active per token": t.active,
        "Tensors": t.storage.tensors,
        "Checkpoint bytes": t.storage.bytes,
        "Layers": c.layers,
        "KDA layers": c.kinds.count("kda"),
        "MLA layers": c.kinds.count("mla"),
        "KV cache bytes per token": roofline.latent_bytes_per_token(c),
        "KDA state bytes per sequence": roofline.state_bytes(c),
        "Cache passes state at, tokens": roofline.crossover(c),
    }


def _blocks(a: Facts, b: Facts) -> list[ModelPair]:
    """Blocks that have parameters in either model, in the order of the diagram."""
    left, right = ({row.id: row for row in f.rows()} for f in (a, b))
    pairs = []
    for block in block_spec.blocks().values():
        rows = left.get(block.id), right.get(block.id)
        if any(rows):
            first = next(row for row in rows if row)
            counts = [row and row.total for row in rows]
            formulas = tuple(row.formula if row else "" for row in rows)
            pairs.append(ModelPair(block.id, first.title, first.kind, *counts, formulas))
    return pairs

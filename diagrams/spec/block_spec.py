"""The YAML files as records: blocks (roles in the model) and views (which of them a drawing shows)."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import yaml

from k3scope.model.config import Config

HERE = Path(__file__).parents[1]
KINDS = ("structure", "attention", "ffn", "norm", "embed", "aux")
EDGE_KINDS = ("flow", "sum", "store")
REACHES = ("same", "previous", "first", "last", "before", "upto", "all")
CONDITIONS = ("", "starts_block", "continues_block")
# parts of a model that no single field of its Config tells
PARTS: dict[str, Callable[[Config], bool]] = {
    "k3": lambda c: c.family == "k3",
    "kda_layers": lambda c: "kda" in c.kinds,
    "mla_layers": lambda c: "mla" in c.kinds,
    "both_attentions": lambda c: {"kda", "mla"} <= set(c.kinds),
    "mixed_layers": lambda c: bool(c.block) and c.layers > 1,  # layer 0 has nothing to mix
    "moe_layers": lambda c: c.dense_layers < c.layers,
}
# the same YAML, ten times as fast; PyYAML has it wherever it was built with libyaml
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Symbol:
    """A letter of an equation: `is_` names a point, a parameter, a Config field, or "local"."""

    symbol: str
    is_: str
    text: str
    shape: str = ""


@dataclass(frozen=True)
class Block:
    """One role in the model, as `blocks/<id>.yaml` describes it."""

    id: str
    title: str
    kind: str
    of: tuple[str, ...]
    at: tuple[str, ...]
    out: dict[str, str]
    equation: str
    symbols: tuple[Symbol, ...]
    notes: str
    sources: tuple[dict, ...]
    leaves: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    sub: str = ""
    summary: str = ""
    params: str = "0"
    flops: str = "0"
    others: tuple[dict, ...] = ()
    confidence: str = "A"
    needs: str = ""  # the part of a model without which it has no such block: a Config field, or one of PARTS
    derived: bool = True  # its derivation speaks of this form
    variants: tuple["Variant", ...] = ()

    def without(self, has: Callable[[str], bool]) -> "Block":
        """The same role in a model that lacks some parts, where it is built differently."""
        variants = [v for v in self.variants if not any(map(has, v.without))]
        return replace(self, **{name: value for v in variants for name, value in v.overrides})


@dataclass(frozen=True)
class Variant:
    """What differs in a block where a model has none of the parts in `without`; a later one goes before."""

    without: tuple[str, ...]
    overrides: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Edge:
    """An arrow a -> b; `reach` tells which instances of `source` an instance of `target` reads."""

    source: str
    target: str
    kind: str = "flow"
    reach: str = "same"
    when: str = ""
    points: tuple[str, ...] = ()
    label: str = ""
    shape: str = ""
    loop: bool = False
    context: bool = False  # in decoding it carries the whole context, not the new token alone
    without: tuple[str, ...] = ()  # the parts in whose absence the arrow is there


@dataclass(frozen=True)
class Node:
    """A box of a view: a block, or an input or output that is no module (`io`)."""

    id: str
    parent: str | None = None
    io: bool = False
    title: str = ""
    sub: str = ""
    text: str = ""
    variant: str = ""
    needs: str = ""  # of an input or output: the Config field without which a model has none


@dataclass(frozen=True)
class View:
    """A drawing without coordinates: which blocks, inside which, joined how."""

    id: str
    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    def children(self, parent: str | None) -> list[str]:
        return [n.id for n in self.nodes if n.parent == parent]

    def of(self, present: Callable[[str], bool], has: Callable[[str], bool]) -> "View":
        """The part of the view whose nodes are there; arrows need both ends."""
        nodes = tuple(n for n in self.nodes if present(n.id))
        built = [e for e in self.edges if not any(map(has, e.without))]
        edges = tuple(e for e in built if present(e.source) and present(e.target))
        return replace(self, nodes=nodes, edges=edges)

    def inside(self, group: str) -> list[str]:
        """Every block below a group, at any depth."""
        direct = self.children(group)
        return [b for child in direct for b in (child, *self.inside(child))]


@cache
def blocks() -> dict[str, Block]:
    """All blocks by id, in the order of the view. ValueError names the file and field at fault."""
    unordered = {p.stem: _block(p) for p in sorted((HERE / "blocks").glob("*.yaml"))}
    order = {n.id: i for i, n in enumerate(view("model").nodes)}
    return dict(sorted(unordered.items(), key=lambda kv: order.get(kv[0], -1)))


@cache
def view(name: str) -> View:
    """The view `views/<name>.yaml`."""
    path = HERE / "views" / f"{name}.yaml"
    if not path.exists():
        raise ValueError(
            f"there is no view {name!r}{nearest(name, [p.stem for p in path.parent.glob('*.yaml')])}"
        )
    raw = _yaml(path)
    nodes = tuple(_record(path, Node, n) for n in raw["nodes"])
    edges = tuple(_edge(path, e) for e in raw["edges"])
    _check_ends(path, {n.id for n in nodes}, nodes, edges)
    return View(name, raw["title"], nodes, edges)


def groups() -> set[str]:
    """Ids of blocks that other blocks stand in."""
    return {n.parent for n in view("model").nodes if n.parent} | {"kimi_k3"}


def _yaml(path: Path) -> dict:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)


def _block(path: Path) -> Block:
    raw = _yaml(path)
    others = raw.pop("variants", ())
    variants = []
    for other in others:
        without = _parts(path, other.pop("without"))
        block = _read(path, raw | other)
        variants.append(Variant(without, tuple((name, getattr(block, name)) for name in other)))
    _parts(path, raw.get("needs") or ())
    return replace(_read(path, dict(raw)), variants=tuple(variants))


def _parts(path: Path, names: str | list[str]) -> tuple[str, ...]:
    """Parts of a model that a file names: one, or a list."""
    parts = (names,) if isinstance(names, str) else tuple(names)
    for part in parts:
        _check_name(path, "part of a model", part, (*Config.__dataclass_fields__, *PARTS))
    return parts


def _read(path: Path, raw: dict) -> Block:
    raw["symbols"] = tuple(_record(path, Symbol, _renamed(s, "is", "is_")) for s in raw.get("symbols", ()))
    for name in ("of", "at", "leaves", "optional", "others", "sources"):
        value = raw.get(name, ())
        raw[name] = (value,) if isinstance(value, str) else tuple(value)
    raw["params"], raw["flops"] = str(raw.get("params", 0)), str(raw.get("flops", 0))
    block = _record(path, Block, {"id": path.stem, **raw})
    _check_name(path, "kind", block.kind, KINDS)
    return block


def _edge(path: Path, raw: dict) -> Edge:
    raw = _renamed(_renamed(raw, "from", "source"), "to", "target")
    raw["points"], raw["without"] = tuple(raw.get("points", ())), _parts(path, raw.get("without", ()))
    edge = _record(path, Edge, raw)
    _check_name(path, "kind", edge.kind, EDGE_KINDS)
    _check_name(path, "reach", edge.reach, REACHES)
    _check_name(path, "when", edge.when, CONDITIONS)
    return edge


def _renamed(raw: dict, old: str, new: str) -> dict:
    return {(new if k == old else k): v for k, v in raw.items()}


def _record(path: Path, kind: type, raw: dict):
    """Build `kind` from a mapping; unknown and missing fields are one readable error."""
    allowed = {f.name for f in fields(kind)}
    for name in raw.keys() - allowed:
        _check_name(path, "field", name, tuple(allowed))
    try:
        return kind(**raw)
    except TypeError as error:
        raise ValueError(f"{path.name}: {error}") from None


def nearest(name: str, allowed: Iterable[str]) -> str:
    """The end of an error about a wrong name: "; did you mean 'kda'?", else "; expected one of ..."."""
    close = difflib.get_close_matches(name, allowed := sorted(allowed), 1)
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {', '.join(allowed)}"


def _check_name(path: Path, what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{path.name}: unknown {what} {value!r}{nearest(value, allowed)}")


def _check_ends(path: Path, ids: set[str], nodes: tuple[Node, ...], edges: tuple[Edge, ...]) -> None:
    ends = [end for e in edges for end in (e.source, e.target)] + [n.parent for n in nodes if n.parent]
    for end in ends:
        _check_name(path, "node", end, tuple(ids))

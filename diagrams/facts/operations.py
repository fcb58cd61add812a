"""What a block does, operation by operation: recorded from the code that runs, and told by block."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache

import torch

from k3scope.diagrams.facts import op_recorder
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import exists, is_parameter, parameters, resolve
from k3scope.diagrams.facts.op_recorder import Event
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.block_spec import Block
from k3scope.model.checkpoint.tensor_layout import NAMES

WORDS = {
    "mm": "matmul", "bmm": "matmul", "_softmax": "softmax", "silu": "SiLU", "gelu": "GELU",
    "rsqrt": "1 ÷ √", "reciprocal": "1 ÷", "embedding": "look up", "gather": "pick", "cat": "join",
    "kda": "delta rule", "new_zeros": "zeros", "zeros_like": "zeros", "arange": "positions", "gt": ">",
    "masked_fill": "mask", "masked_fill_": "mask", "upsample_bilinear2d": "resize", "neg": "−",
}  # fmt: skip
TYPES = {getattr(torch, name): dtype for name, dtype in (NAMES | {"int64": "I64", "int32": "I32"}).items()}
SIGNS = {"mul": "×", "div": "÷", "add": "+", "add_": "+", "sub": "−", "pow": "power"}
Place = tuple[str, str]  # block and instance


@dataclass(frozen=True)
class Op:
    """One operation of a block. Views and casts are left out."""

    id: str
    title: str
    shape: str  # of its result, "[B, T, 7168]"
    flops: int  # at the B and T of the recording
    reads: tuple[tuple[str, str], ...]  # ("op", id), ("tensor", leaf) or ("block", id), in order
    feeds: frozenset[str]  # blocks that read its result


@lru_cache(maxsize=8)
def _recorded(facts: Facts) -> tuple[Facts, op_recorder.Recording]:
    model, heard = op_recorder.record(facts.config)
    return Facts("", model), heard


@lru_cache(maxsize=8)
def types(facts: Facts) -> dict[tuple[str, str], str]:
    """The type of each output of each block, by block and point: "BF16"."""
    small, heard = _recorded(facts)
    found = {}
    for block in small.blocks.values():
        path = small.instances(block)[-1]
        for point in block.out:
            if dtype := heard.types.get(resolve(path, point)):
                found[block.id, point] = TYPES[dtype]
    return found


@lru_cache(maxsize=8)
def operations(facts: Facts) -> dict[str, tuple[Op, ...]]:
    """Operations by block: those of the instance that has most of them; a block may have none."""
    small, heard = _recorded(facts)
    told = _Telling(small, heard)
    by_place = defaultdict(list)
    for event in heard.events:
        if place := told.owner(event):
            by_place[place].append(event)
    chosen: dict[str, Place] = {}
    for place, events in by_place.items():
        if place[0] not in chosen or len(events) >= len(by_place[chosen[place[0]]]):
            chosen[place[0]] = place
    feeds = told.feeds(heard.events)
    return {block: told.ops(place, by_place[place], feeds) for block, place in chosen.items()}


class _Telling:
    """Which block an event belongs to, and where what it reads comes from."""

    def __init__(self, facts: Facts, heard: op_recorder.Recording):
        self.facts, self.heard = facts, heard
        self.claims = _claims(facts)
        self.readers: dict[Event, list[Event]] = defaultdict(list)
        for event in heard.events:
            for source in event.reads:
                if isinstance(source, Event):
                    self.readers[source].append(event)
        self._owners: dict[Event, Place | None] = {}
        for event in reversed(heard.events):  # who reads it is known before it
            self._owners[event] = self._find(event)

    def owner(self, event: Event) -> Place | None:
        return self._owners[event]

    def _find(self, event: Event) -> Place | None:
        """The block whose module runs it; else the one that gets its result first."""
        if place := self._claimed(event.path):
            return place
        handed = [self._claimed(path) for path in self.heard.handed.get(event, ())]
        later = [self._owners.get(reader) for reader in self.readers[event]]
        return next((place for place in (*handed, *later) if place), None)

    def _claimed(self, path: str) -> Place | None:
        while path and path not in self.claims:
            path = path.rpartition(".")[0]
        return self.claims.get(path)

    def source(self, event: Event, left: tuple[str, ...]) -> Place | None:
        """The block a value comes from: the last one that handed it on."""
        passed = [self.claims[path] for path in left if path in self.claims]
        return passed[-1] if passed else self.owner(event)

    def feeds(self, events: list[Event]) -> dict[Event, set[str]]:
        found = defaultdict(set)
        for event in events:
            if place := self.owner(event):
                for source in event.reads:
                    if isinstance(source, Event) and self.owner(source) != place:
                        found[source].add(place[0])
        return found

    def ops(self, place: Place, events: list[Event], feeds: dict[Event, set[str]]) -> tuple[Op, ...]:
        count: Counter = Counter()
        ids: dict[Event, str] = {}
        for event in events:
            count[event.name] += 1
            ids[event] = f"{event.name.strip('_')}{count[event.name]}"
        leaves = {resolve(place[1], leaf): leaf for leaf in self.facts.blocks[place[0]].leaves}
        return tuple(
            Op(
                ids[e],
                _title(e),
                self._shape(e, place[0]),
                e.flops,
                tuple(dict.fromkeys(self._reads(e, place, ids, leaves))),
                frozenset(feeds.get(e, ())),
            )
            for e in events
        )

    def _shape(self, event: Event, block: str) -> str:
        axes = op_recorder.axes(event.shape)
        mix = "AttnResMix" in self.facts.blocks[block].of  # how many it mixes depends on the layer
        return re.sub(r"^\[B, T, 2\b", "[B, T, candidates", axes) if mix else axes

    def _reads(self, event: Event, place: Place, ids: dict[Event, str], leaves: dict[str, str]):
        for source, left in zip(event.reads, event.through, strict=True):
            if isinstance(source, str):
                if source in leaves:
                    yield "tensor", leaves[source]
                continue
            came = self.source(source, left)
            if came == place and source in ids:
                yield "op", ids[source]
            elif came:
                yield "block", came[0]


def _claims(facts: Facts) -> dict[str, Place]:
    """Modules whose work is a block's: owners of its parameters, its probes, its outputs, or itself."""
    leaves = [b for i, b in facts.blocks.items() if i not in block_spec.groups()]
    shared = Counter(path for b in facts.blocks.values() for path in facts.instances(b))
    found: dict[str, Place] = {}
    for block in leaves:
        for path in facts.instances(block):
            for own in _modules(facts, block, path, shared[path] > 1):
                found[own] = block.id, path
    return found


def _modules(facts: Facts, block: Block, path: str, shared: bool) -> set[str]:
    own = {p.rpartition(".")[0] for p in parameters(facts.model, block, path)}
    points = [resolve(path, p) for p in (*block.leaves, *block.out)]
    own |= {p for p in points if exists(facts.model, p) and not is_parameter(facts.model, p)}
    return own - {path} if shared else own | {path}


def _title(event: Event) -> str:
    name, number = event.name, event.constants
    if name == "pow" and number == (2,):
        return "square"
    if name == "topk":
        return f"top {number[0]:g}"
    sign = SIGNS.get(name)
    if sign:
        return f"{sign} {number[0]:.4g}".replace("-", "−") if number and len(event.reads) < 2 else sign
    return WORDS.get(name, name.strip("_").replace("_", " "))

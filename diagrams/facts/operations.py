"""What a block does, operation by operation: recorded from the code that runs, and grouped by block."""

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

TITLES = {
    "mm": "matmul", "bmm": "matmul", "_softmax": "softmax", "silu": "SiLU", "gelu": "GELU",
    "rsqrt": "1 ÷ √", "reciprocal": "1 ÷", "embedding": "look up", "gather": "pick", "cat": "join",
    "kda": "delta rule", "new_zeros": "zeros", "zeros_like": "zeros", "arange": "positions", "gt": ">",
    "masked_fill": "mask", "masked_fill_": "mask", "upsample_bilinear2d": "resize", "neg": "−",
}  # fmt: skip
TYPES = {getattr(torch, name): dtype for name, dtype in (NAMES | {"int64": "I64", "int32": "I32"}).items()}
SIGNS = {"mul": "×", "div": "÷", "add": "+", "add_": "+", "sub": "−", "pow": "power"}
Owner = tuple[str, str]  # block and instance


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
    model, recording = op_recorder.record(facts.config)
    return Facts("", model), recording


@lru_cache(maxsize=8)
def types(facts: Facts) -> dict[tuple[str, str], str]:
    """The type of each output of each block, by block and point: "BF16"."""
    small, recording = _recorded(facts)
    dtypes = {}
    for block in small.blocks.values():
        path = small.instances(block)[-1]
        for point in block.out:
            if dtype := recording.types.get(resolve(path, point)):
                dtypes[block.id, point] = TYPES[dtype]
    return dtypes


@lru_cache(maxsize=8)
def operations(facts: Facts) -> dict[str, tuple[Op, ...]]:
    """Operations by block: those of the instance that has most of them; a block may have none."""
    small, recording = _recorded(facts)
    attribution = _Attribution(small, recording)
    by_owner = defaultdict(list)
    for event in recording.events:
        if owner := attribution.owner(event):
            by_owner[owner].append(event)
    fullest: dict[str, Owner] = {}
    for owner, events in by_owner.items():
        block = owner[0]
        if block not in fullest or len(events) >= len(by_owner[fullest[block]]):
            fullest[block] = owner
    feeds = attribution.feeds(recording.events)
    return {block: attribution.ops(owner, by_owner[owner], feeds) for block, owner in fullest.items()}


class _Attribution:
    """Which block an event belongs to, and where what it reads comes from."""

    def __init__(self, facts: Facts, recording: op_recorder.Recording):
        self.facts, self.recording = facts, recording
        self.claims = _claims(facts)
        self.readers: dict[Event, list[Event]] = defaultdict(list)
        for event in recording.events:
            for source in event.reads:
                if isinstance(source, Event):
                    self.readers[source].append(event)
        self._owners: dict[Event, Owner | None] = {}
        for event in reversed(recording.events):  # its readers have their owner before it
            self._owners[event] = self._owner_of(event)

    def owner(self, event: Event) -> Owner | None:
        return self._owners[event]

    def _owner_of(self, event: Event) -> Owner | None:
        """The block whose module runs it; else the one that gets its result first."""
        if owner := self._claimed(event.path):
            return owner
        handed = [self._claimed(path) for path in self.recording.handed.get(event, ())]
        later = [self._owners.get(reader) for reader in self.readers[event]]
        return next((owner for owner in (*handed, *later) if owner), None)

    def _claimed(self, path: str) -> Owner | None:
        while path and path not in self.claims:
            path = path.rpartition(".")[0]
        return self.claims.get(path)

    def source(self, event: Event, left: tuple[str, ...]) -> Owner | None:
        """The block a value comes from: the last one that handed it on."""
        passed = [self.claims[path] for path in left if path in self.claims]
        return passed[-1] if passed else self.owner(event)

    def feeds(self, events: list[Event]) -> dict[Event, set[str]]:
        readers = defaultdict(set)
        for event in events:
            if owner := self.owner(event):
                for source in event.reads:
                    if isinstance(source, Event) and self.owner(source) != owner:
                        readers[source].add(owner[0])
        return readers

    def ops(self, owner: Owner, events: list[Event], feeds: dict[Event, set[str]]) -> tuple[Op, ...]:
        count: Counter = Counter()
        ids: dict[Event, str] = {}
        for event in events:
            count[event.name] += 1
            ids[event] = f"{event.name.strip('_')}{count[event.name]}"
        leaves = {resolve(owner[1], leaf): leaf for leaf in self.facts.blocks[owner[0]].leaves}
        return tuple(
            Op(
                ids[e],
                _title(e),
                self._shape(e, owner[0]),
                e.flops,
                tuple(dict.fromkeys(self._reads(e, owner, ids, leaves))),
                frozenset(feeds.get(e, ())),
            )
            for e in events
        )

    def _shape(self, event: Event, block: str) -> str:
        axes = op_recorder.axes(event.shape)
        mix = "AttnResMix" in self.facts.blocks[block].of  # how many it mixes depends on the layer
        return re.sub(r"^\[B, T, 2\b", "[B, T, candidates", axes) if mix else axes

    def _reads(self, event: Event, owner: Owner, ids: dict[Event, str], leaves: dict[str, str]):
        for source, left in zip(event.reads, event.through, strict=True):
            if isinstance(source, str):
                if source in leaves:
                    yield "tensor", leaves[source]
                continue
            producer = self.source(source, left)
            if producer == owner and source in ids:
                yield "op", ids[source]
            elif producer:
                yield "block", producer[0]


def _claims(facts: Facts) -> dict[str, Owner]:
    """Modules whose work is a block's: owners of its parameters, its probes, its outputs, or itself."""
    leaves = [b for i, b in facts.blocks.items() if i not in block_spec.groups()]
    shared = Counter(path for b in facts.blocks.values() for path in facts.instances(b))
    claims: dict[str, Owner] = {}
    for block in leaves:
        for path in facts.instances(block):
            for own in _modules(facts, block, path, shared[path] > 1):
                claims[own] = block.id, path
    return claims


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
    return TITLES.get(name, name.strip("_").replace("_", " "))

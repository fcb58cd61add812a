"""What a block opens to: the tensors it owns and the operations it does, as boxes and arrows."""

from dataclasses import dataclass, replace
from functools import lru_cache

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import is_parameter, layer_of, of_all_layers, resolve
from k3scope.diagrams.facts.operations import Op, operations
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.format_numbers import short, size
from k3scope.model.checkpoint.tensor_layout import Stored

SEPARATOR = "/"  # between a block and a part of it: "mla_q_up/q_b_proj.weight"


@dataclass(frozen=True)
class Tensor:
    """A parameter of a block, in one instance; a bank of experts is one parameter and many tensors."""

    id: str  # short name, unique in the block: "q_b_proj.weight"
    stored: tuple[Stored, ...]  # as the checkpoint has it; of expert 0 in a bank
    copies: int  # experts, or 1
    instances: int
    elements: int  # of one instance
    bytes: int  # of one instance

    @property
    def row(self) -> str:
        """Shape and type in a line; what is packed is shown by its logical shape."""
        first = self.stored[0]
        many = f"{self.copies} × " if self.copies > 1 else ""
        return f"{many}{list(first.logical or first.shape)} {first.label or first.dtype}"


@dataclass(frozen=True)
class BlockContents:
    """Tensors and operations of one block."""

    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]

    def __bool__(self) -> bool:
        return bool(self.tensors or self.ops)


@lru_cache(maxsize=1024)
def contents(facts: Facts, block_id: str, layer: int | None = None) -> BlockContents:
    """The parts of a leaf block: of its first instance, or the one in a layer. Nothing for a group."""
    block = facts.blocks.get(block_id)
    if block is None or block_id in block_spec.groups():
        return BlockContents((), ())
    paths = facts.instances(block)
    path = next((p for p in paths if layer is not None and layer_of(p) == layer), paths[0])
    full = [resolve(path, leaf) for leaf in block.leaves]
    tensors = tuple(_tensor(facts, p, len(paths), layer) for p in full if is_parameter(facts.model, p))
    return BlockContents(tensors, _renamed(operations(facts).get(block_id, ()), block.leaves, path))


def split_id(selected: str) -> tuple[str, str]:
    """Block and part: "mla_q_up/mm1" is ("mla_q_up", "mm1")."""
    block, _, part = selected.partition(SEPARATOR)
    return block, part


def part_ids(facts: Facts, block: str) -> tuple[str, ...]:
    """Names of the parts of a block."""
    own = contents(facts, block)
    return tuple(part.id for part in (*own.tensors, *own.ops))


def boxes(facts: Facts, block: str) -> dict[str, dict]:
    """Attributes of the boxes inside an open block, by id, tensors first."""
    own, kind = contents(facts, block), facts.blocks[block].kind
    drawn = {t.id: _box(t.id, t.row, kind, "tensor", _about(t), t.elements) for t in own.tensors}
    drawn |= {op.id: _box(op.title, op.shape, kind, "op", _does(op), None) for op in own.ops}
    return {f"{block}{SEPARATOR}{name}": box for name, box in drawn.items()}


def edges(facts: Facts, block: str) -> list[tuple[str, str]]:
    """Arrows between the boxes of an open block."""
    return [
        (f"{block}{SEPARATOR}{name}", f"{block}{SEPARATOR}{op.id}")
        for op in contents(facts, block).ops
        for what, name in op.reads
        if what != "block"
    ]


def producers(facts: Facts, source: str, target: str) -> list[str]:
    """The operations of an open block whose results another block reads."""
    ops = contents(facts, source).ops
    ids = [op.id for op in ops if target in op.feeds] or [op.id for op in ops[-1:]]
    return [f"{source}{SEPARATOR}{name}" for name in ids]


def consumers(facts: Facts, target: str, source: str, others: set[str]) -> list[str]:
    """The operations of an open block that read another one; `others` feed it as well."""
    ops = contents(facts, target).ops
    reads = {op.id: {name for what, name in op.reads if what == "block"} for op in ops}
    ids = [name for name, blocks in reads.items() if source in blocks]
    ids = ids or [name for name, blocks in reads.items() if blocks - others]
    return [f"{target}{SEPARATOR}{name}" for name in ids or [op.id for op in ops[:1]]]


def _renamed(ops: tuple[Op, ...], leaves: tuple[str, ...], path: str) -> tuple[Op, ...]:
    """Operations that call tensors as the boxes do."""
    names = {leaf: short_name(resolve(path, leaf)) for leaf in leaves}
    return tuple(
        replace(op, reads=tuple((w, names[n] if w == "tensor" else n) for w, n in op.reads)) for op in ops
    )


def _tensor(facts: Facts, path: str, instances: int, layer: int | None) -> Tensor:
    entry = facts.layout.entries[path]
    stored = entry.tensors
    if layer is None:
        stored = tuple(replace(t, name=of_all_layers(t.name)) for t in stored)
    taken = facts.layout.storage([path]).bytes
    return Tensor(short_name(path), stored, max(entry.experts, 1), instances, entry.parameters, taken)


def short_name(path: str) -> str:
    """The last part, and for a plain weight the module before it: "A_log", "q_b_proj.weight"."""
    parts = path.split(".")
    return ".".join(parts[-2:]) if parts[-1] == "weight" else parts[-1]


def _about(t: Tensor) -> str:
    each = f"{t.copies * len(t.stored):,} tensors, " if t.copies > 1 else ""
    many = f" in each of {t.instances}" if t.instances > 1 else ""
    return f"{each}{short(t.elements)} elements, {size(t.bytes)}{many}"


def _does(op: Op) -> str:
    return f"gives {op.shape}" + ("; a matrix product" if op.flops else "")


def _box(title: str, row: str, kind: str, level: str, summary: str, elements: int | None) -> dict:
    return {
        "title": title, "sub": row, "mono": row, "kind": kind, "badge": "", "summary": summary,
        "params": elements, "count": 1, "io": False, "level": level,
    }  # fmt: skip

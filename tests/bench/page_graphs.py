"""The graph that the page draws, in the files that other viewers read: the same boxes and arrows for all."""

import json
from dataclasses import dataclass
from pathlib import Path

from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import Facts


@dataclass(frozen=True)
class Op:
    name: str  # unique
    kind: str  # what is written on its box
    group: str  # names of the groups around it, with slashes
    inputs: tuple[str, ...]


def operations(model: str, layers: list[int]) -> list[Op]:
    """Every operation of these layers and what stands before and after them; layers follow each other."""
    facts, found, last = Facts.of(model), [], None
    for index in layers:
        view = stack.view_of(facts, index)
        parents = {n.id: n.parent for n in view.nodes}
        groups = set(parents.values())
        inside = [n for n in view.nodes if n.id not in groups and stack.LAYER in _path(n.id, parents)]
        names = {n.id: f"layer {index}/{n.id}" for n in inside}
        for node in inside:
            sources = tuple(
                dict.fromkeys(
                    names[e.source]
                    for e in view.edges
                    if e.target == node.id and not e.loop and e.source in names
                )
            )
            path = [facts.blocks[p].title for p in reversed(_path(node.id, parents)[:-1])]
            group = "/".join([f"Layer {index}", *path])
            found.append(Op(names[node.id], facts.blocks[node.id].title, group, sources or _first(last)))
        last = found[-1].name
    return found


def _first(last: str | None) -> tuple[str, ...]:
    return () if last is None else (last,)


def _path(node: str, parents: dict) -> list[str]:
    """Groups around a node, the innermost first."""
    path, at = [], parents[node]
    while at:
        path.append(at)
        at = parents[at]
    return path


def write_onnx(ops: list[Op], path: Path) -> None:
    """An ONNX model without weights, written field by field: reading it takes no package of ours."""
    nodes = [
        _texts(1, [_value(name) for name in op.inputs] or ["tokens"])
        + _texts(2, [_value(op.name)])
        + _texts(3, [op.name])
        + _texts(4, [op.kind.replace(" ", "")])
        for op in ops
    ]
    graph = b"".join(_field(1, node) for node in nodes) + _texts(2, ["graph"])
    graph += _field(11, _tensor("tokens")) + _field(12, _tensor(_value(ops[-1].name)))
    path.write_bytes(b"\x08\x08" + _field(7, graph) + _field(8, b"\x10\x11"))


def _value(name: str) -> str:
    return f"{name}:0"


def _tensor(name: str) -> bytes:
    shape = b"".join(_field(1, b"\x08" + bytes([size])) for size in (1, 17))
    return _texts(1, [name]) + _field(2, _field(1, b"\x08\x01" + _field(2, shape)))


def _texts(number: int, values: list[str]) -> bytes:
    return b"".join(_field(number, value.encode()) for value in values)


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field of protobuf."""
    size, length = len(data), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


def write_explorer(ops: list[Op], path: Path) -> None:
    """A graph in Model Explorer's own JSON."""
    nodes = [
        {
            "id": op.name,
            "label": op.kind,
            "namespace": op.group,
            "attrs": [{"key": "name", "value": op.name}],
            "incomingEdges": [
                {"sourceNodeId": name, "sourceNodeOutputId": "0", "targetNodeInputId": str(i)}
                for i, name in enumerate(op.inputs)
            ],
        }
        for op in ops
    ]
    path.write_text(json.dumps({"graphs": [{"id": "graph", "nodes": nodes}]}))

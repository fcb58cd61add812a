"""Count the parameters and bytes of a model: by block, by layer, or tensor by tensor."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from k3scope.diagrams.facts.block_facts import Facts
    from k3scope.diagrams.facts.records import ParameterRow
    from k3scope.model.checkpoint.tensor_layout import Stored

COLUMNS = ("id", "title", "formula", "per_instance", "count", "total", "bytes")


def arguments(parser) -> None:
    parser.add_argument(
        "model", nargs="?", default="kimi-k3", help="preset, config.json, checkpoint folder or its headers"
    )
    parser.add_argument("--by", choices=["block", "layer", "tensor"], default="block")
    parser.add_argument("--format", choices=["table", "json", "csv"], default="table")


def run(options) -> None:
    from k3scope.diagrams.facts.block_facts import Facts

    facts = Facts.of(options.model)
    rows = {"block": block_rows, "layer": layer_rows, "tensor": tensor_rows}[options.by](facts)
    write = {"table": _table, "json": _json, "csv": _csv}[options.format]
    if options.by == "tensor" and options.format == "table":
        write = _lines
    write(facts, rows, options.by)


def summary(facts: Facts) -> dict:
    """The totals under their public keys; a number that cannot be had yet has no key."""
    t = facts.totals
    vision = {} if t.vision is None else {"vision_params": t.vision}
    problem = facts.headers.problem if facts.headers else ""
    return {
        "model": facts.name,
        **({"problem": problem} if problem else {}),
        "total_params": t.total,
        "text_params": t.text,
        **vision,
        "active_params": t.active,
        "active_params_with_table": t.active_with_table,
        "active_params_without_head": t.active_without_head,
        "padding_params": t.padding,
        "unused_params": t.unused,
        "tensor_count": t.storage.tensors,
        "tensors_by_dtype": t.storage.by_dtype,
        "checkpoint_bytes": t.storage.bytes,
        "scale_bytes": t.storage.scale_bytes,
        **({"quantization": str(facts.config.quantization)} if facts.config.quantization else {}),
        **({"notes": list(facts.notes)} if facts.notes else {}),
    }


def block_rows(facts: Facts) -> list[dict]:
    return [_row(r) for r in facts.rows()]


def ledger_csv(facts: Facts) -> str:
    """The ledger by block, as `params --format csv` prints it."""
    out = io.StringIO()
    _write_csv(block_rows(facts), out)
    return out.getvalue()


def layer_rows(facts: Facts) -> list[dict]:
    """One row per layer and one for what stands outside the stack."""
    from k3scope.diagrams.facts.instances import layer_of
    from k3scope.model.accounting import split

    c = facts.config
    where = {path: layer_of(path) for path in facts.layout.entries}
    each = split(facts.model, where.get)
    rows = []
    for layer in [*range(c.layers), None]:
        stored = facts.layout.storage(path for path, at in where.items() if at == layer)
        total = each.get(layer, 0)
        rows.append(_titles(c, layer) | {"tensors": stored.tensors, "total": total, "bytes": stored.bytes})
    return rows


def tensor_rows(facts: Facts) -> Iterator[dict]:
    """Every tensor of the official layout, made as it is read: the release has half a million."""
    return (_tensor(t) for t in facts.layout)


def _titles(c, layer: int | None) -> dict:
    if layer is None:
        return {"id": "outside", "title": "outside the layers: embedding, head, last norms"}
    ffn = "dense" if layer < c.dense_layers else "moe"
    return {"id": f"layer {layer}", "title": f"layer {layer}: {c.kinds[layer]} + {ffn}"}


def _row(row: ParameterRow) -> dict:
    everything = dataclasses.asdict(row)
    return {name: everything[name] for name in COLUMNS}


def _tensor(t: Stored) -> dict:
    return {
        "name": t.name,
        "dtype": t.dtype,
        "shape": "x".join(map(str, t.shape)),
        "params": t.parameters,
        "bytes": t.bytes,
        "module": t.parameter,
        "expert": t.expert,
    }


def _json(facts: Facts, rows: Iterable[dict], by: str) -> None:
    """One object; its last member is the list, written row by row."""
    head = json.dumps(summary(facts), indent=2).removesuffix("\n}")
    print(f'{head},\n  "{by}s": [', end="")
    for i, row in enumerate(rows):
        print("," * bool(i), json.dumps(row), sep="\n    ", end="")
    print("\n  ]\n}")


def _csv(_facts: Facts, rows: Iterable[dict], _by: str) -> None:
    _write_csv(rows, sys.stdout)


def _write_csv(rows: Iterable[dict], out: TextIO) -> None:
    writer = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(out, fieldnames=list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)


def _table(facts: Facts, rows: list[dict], _by: str) -> None:
    names = [n for n in rows[0] if n != "id"]
    cells = [names] + [[_cell(r[n]) for n in names] for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    right = [isinstance(rows[0][n], int) for n in names]
    for line in cells:
        aligned = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        print("  ".join(aligned).rstrip())
    _totals(facts)


def _lines(facts: Facts, rows: Iterable[dict], _by: str) -> None:
    """A table whose widths are known beforehand, so that lines come at once."""
    for row in rows:
        print(f"{row['dtype']:<5}{row['shape']:>14}{row['bytes']:>16,}  {row['name']}")
    _totals(facts)


def _totals(facts: Facts) -> None:
    t = facts.totals
    print(f"\n{facts.name}: {t.total:,} parameters")
    print(f"  {t.text:,} text parameters")
    print(f"    {t.padding:,} of them A_log padding")
    print(f"    {t.unused:,} of them never used (layer 0 self_attention_res)")
    if t.vision is not None:
        print(f"  {t.vision:,} vision parameters")
    print(f"  {t.active:,} active per token (head counted, lookup table not)")
    print(f"    {t.active_with_table:,} with the lookup table, {t.active_without_head:,} with neither")
    dtypes = ", ".join(f"{n:,} {dtype}" for dtype, n in t.storage.by_dtype.items())
    print(f"  {t.storage.tensors:,} tensors in the checkpoint: {dtypes}")
    kind = " and ".join(t.storage.labels)
    scales = f"{t.storage.scale_bytes:,} of them {f'{kind} ' * bool(kind)}scales (never parameters)"
    print(f"  {t.storage.bytes:,} bytes, {scales}")
    for note in facts.notes:
        print(f"  {note}")
    if facts.headers:
        print(f"  as its headers say; {facts.headers.problem or 'no tensor is missing'}")
    if difference := t.difference(facts.name):
        print(
            f"  difference to the official index: {difference.tensors:,} tensors, {difference.bytes:,} bytes"
        )


def _cell(value) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)

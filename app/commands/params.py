"""Count the parameters of a model, block by block."""

import csv
import dataclasses
import json
import sys

from diagrams.facts import Facts, Row

COLUMNS = ("id", "title", "formula", "per_instance", "count", "total")


def arguments(parser) -> None:
    parser.add_argument(
        "model", nargs="?", default="kimi-k3", help="preset, config.json or checkpoint folder"
    )
    parser.add_argument("--by", choices=["block", "layer"], default="block")
    parser.add_argument("--format", choices=["table", "json", "csv"], default="table")


def run(options) -> None:
    facts = Facts.of(options.model)
    rows = block_rows(facts) if options.by == "block" else layer_rows(facts)
    write = {"table": _table, "json": _json, "csv": _csv}[options.format]
    write(facts, rows, options.by)


def summary(facts: Facts) -> dict:
    """The totals under their public keys; a number that cannot be had yet has no key."""
    t = facts.totals
    return {
        "model": facts.name,
        "total_params": t.text,
        "text_params": t.text,
        "active_params": t.active,
        "padding_params": t.padding,
        "unused_params": t.unused,
    }


def block_rows(facts: Facts) -> list[dict]:
    return [_row(r) for r in facts.rows()]


def layer_rows(facts: Facts) -> list[dict]:
    """One row per layer and one for what stands outside the stack."""
    c = facts.config
    rows = []
    for layer, kind in enumerate(c.kinds):
        ffn = "dense" if layer < c.dense_layers else "moe"
        n = facts.layer_total(layer)
        rows.append({"id": f"layer {layer}", "title": f"{kind} + {ffn}", "total": n})
    outside = facts.totals.text - sum(r["total"] for r in rows)
    return [*rows, {"id": "outside", "title": "embedding, output mix, final norm, head", "total": outside}]


def _row(row: Row) -> dict:
    everything = dataclasses.asdict(row)
    return {name: everything[name] for name in COLUMNS}


def _json(facts: Facts, rows: list[dict], by: str) -> None:
    print(json.dumps(summary(facts) | {f"{by}s": rows}, indent=2))


def _csv(_facts: Facts, rows: list[dict], _by: str) -> None:
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _table(facts: Facts, rows: list[dict], _by: str) -> None:
    names = [n for n in rows[0] if n != "id"]
    cells = [names] + [[_cell(r[n]) for n in names] for r in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    right = [isinstance(rows[0][n], int) for n in names]
    for line in cells:
        aligned = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        print("  ".join(aligned).rstrip())
    t = facts.totals
    print(f"\n{facts.name}: {t.text:,} text parameters")
    print(f"  {t.padding:,} of them A_log padding")
    print(f"  {t.unused:,} never used (layer 0 self_attention_res)")
    print(f"  {t.active:,} active per token (head counted, lookup table not)")


def _cell(value) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)

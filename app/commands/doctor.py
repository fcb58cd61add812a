"""Show what k3scope finds on this machine: versions, device, compiler, kernels, tokenizer, models."""

import json

from k3scope.app.diagnostics import report


def arguments(parser) -> None:
    parser.add_argument("--format", choices=["table", "json"], default="table")


def run(options) -> None:
    found = report()
    if options.format == "json":
        print(json.dumps(found, indent=1))
        return
    for title, entries in found.items():
        print(title)
        for name, value in entries.items():
            said = "; ".join(map(str, value.values())) if isinstance(value, dict) else value
            print(f"  {name:<18} {said}")

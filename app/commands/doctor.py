"""Show what this machine has: versions, device, compiler, kernels, tokenizers, models."""

import json


def arguments(parser) -> None:
    parser.add_argument("--format", choices=["table", "json"], default="table")


def run(options) -> None:
    from k3scope.app.diagnostics import report

    diagnostics = report()
    if options.format == "json":
        print(json.dumps(diagnostics, indent=1))
        return
    for title, entries in diagnostics.items():
        print(title)
        for name, value in entries.items():
            text = "; ".join(map(str, value.values())) if isinstance(value, dict) else value
            print(f"  {name:<18} {text}")

"""The command line: the same functions that the page calls."""

import argparse
import sys

from k3scope.app.commands import (
    check,
    compare,
    compare_trace,
    doctor,
    export,
    generate,
    lab,
    params,
    score,
    serve,
    trace,
)

COMMANDS = (serve, params, compare, trace, compare_trace, generate, score, lab, export, check, doctor)


def main(argv: list[str] | None = None) -> int:
    """Run one command; what a person typed wrong ends in one sentence and exit status 2."""
    parser = argparse.ArgumentParser(prog="k3scope", description="Kimi K3 as it is.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        sub = commands.add_parser(name, help=module.__doc__.split("\n")[0], description=module.__doc__)
        module.arguments(sub)
        sub.set_defaults(run=module.run)
    options = parser.parse_args(argv)
    try:
        return options.run(options) or 0
    except ValueError as error:
        print(f"k3scope: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    return 0

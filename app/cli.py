"""The command line: the same functions that the page calls."""

import argparse
import gc
import sys
from importlib import import_module
from itertools import filterfalse, takewhile

from k3scope import __version__

# name -> first line of the docstring of commands/NAME.py: the list is printed without importing any of them
COMMANDS = {
    "serve": "Open k3scope in the browser.",
    "params": "Count the parameters and bytes of a model: by block, by layer, or tensor by tensor.",
    "compare": "Put two models side by side: fields that differ, parameters by block, caches.",
    "trace": "Run ids or a prompt through a model and write every inner tensor to a safetensors file.",
    "compare-trace": "Find the first block in which two traces disagree, and by how much.",
    "generate": "Continue a prompt, token by token.",
    "score": "Bits per byte of a text, and what each token of it costs.",
    "lab": "Run a prompt and write one view of it: numbers (.npz), a table (.csv), a picture (.svg, .png).",
    "headers": "Write what a checkpoint folder holds, without its numbers: names, dtypes, shapes, offsets.",
    "export": "Write a view as a picture or as data: SVG, PNG, JSON; or the ledger as CSV.",
    "store": "List, remove or write out the runs that a server keeps; also while it serves.",
    "check": "Check the descriptions of the blocks against the live model.",
    "doctor": "Show what this machine has: versions, device, compiler, kernels, tokenizers, models.",
}


WITHOUT_TORCH = ("store",)


class Parser(argparse.ArgumentParser):
    """Ends what a person typed wrong with the nearest name there is."""

    def parse_known_args(self, args=None, namespace=None):
        typed = list(sys.argv[1:] if args is None else args)
        # what stands after the name of a command is for the parser of that command
        self._typed = list(takewhile(_is_option, typed)) if self._subparsers else typed
        options, unknown = super().parse_known_args(typed, namespace)
        if unknown:  # here and not in the parser above, which does not know the options of this command
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown

    def error(self, message: str):
        """Also where a required option is missing: `--promt x` is why `--prompt` is."""
        known = [option for action in self._actions for option in action.option_strings]
        for text in getattr(self, "_typed", ()):
            name = text.partition("=")[0]
            if _is_option(name) and len(name) > 2 and not any(o.startswith(name) for o in known):
                message += did_you_mean(name, known)
        super().error(message)

    def _check_value(self, action, value):
        """argparse calls this for each value that has choices, and for the command itself."""
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(
                action, f"there is no {value!r}; known: {', '.join(choices)}{did_you_mean(value, choices)}"
            )


def _is_option(text: str) -> bool:
    return text.startswith("-")


def did_you_mean(typed: str, known: list[str]) -> str:
    """The end of a message: the nearest of the known names, nothing when none is near."""
    from difflib import get_close_matches  # only after a typo

    close = get_close_matches(typed, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def main(argv: list[str] | None = None) -> int:
    """Run one command; what a person typed wrong ends in one sentence and exit status 2, numbers that are not
    finite with 1.

    Without `argv` it is the command line of this process.
    """
    parser = _parser(sys.argv[1:] if argv is None else argv)
    options = parser.parse_args(argv)
    if options.command is None:
        parser.print_help()
        return 0
    if options.command not in WITHOUT_TORCH:
        _load_torch()
    try:
        return options.run(options) or 0
    except ValueError as error:
        print(f"k3scope: {error}", file=sys.stderr)
        return getattr(error, "exit_status", 2)
    except BrokenPipeError:  # the reader has seen enough
        sys.stderr.close()
    return 0


def _parser(argv: list[str]) -> Parser:
    """All commands by name and purpose; options only of the one that was typed, which alone is imported."""
    parser = Parser(prog="k3scope", description="Kimi K3 as it is.")
    parser.add_argument("--version", action="version", version=f"k3scope {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    typed = next(filterfalse(_is_option, argv), "")
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose)
        if name == typed:
            module = command_module(name)
            command.description = module.__doc__
            module.arguments(command)
            command.set_defaults(run=module.run)
    return parser


def command_module(name: str):
    """The file of a command. It imports what is heavy inside `run`, so that its help needs no torch."""
    return import_module(f"k3scope.app.commands.{name.replace('-', '_')}")


def _load_torch() -> None:
    """Most commands need it, and a fifth of its import is the garbage collector walking over what stays."""
    if "torch" in sys.modules:
        return
    gc.disable()
    import_module("torch")
    gc.freeze()
    gc.enable()

"""Write a view as a picture or as data: SVG, PNG, JSON; or the ledger as CSV."""

from pathlib import Path

from k3scope.app.commands.params import ledger_csv
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene.diagram_file import FORMATS, Picture, groups
from k3scope.diagrams.scene.graph import OPEN
from k3scope.diagrams.spec.shapes import MOST, PHASES, Step

LEDGER = "ledger"


def arguments(parser) -> None:
    parser.add_argument("view", nargs="?", default="model", help="model: the drawing (default); or ledger")
    parser.add_argument("--model", default="kimi-k3", help="preset, config.json or checkpoint folder")
    parser.add_argument(
        "--open",
        default=",".join(OPEN),
        help="open groups: a,b (empty: all closed; all: every one; everything: also tensors, operations)",
    )
    parser.add_argument("--select", default="", metavar="ID", help="block to mark")
    parser.add_argument("--layer", type=int, metavar="N", help="draw this layer, with its own variants")
    parser.add_argument("--phase", choices=PHASES, default=PHASES[0], help="step that shapes are for")
    parser.add_argument("--types", action="store_true", help="write the type of what each arrow carries")
    for axis, default in (("B", Step.B), ("T", Step.T)):
        parser.add_argument(f"--{axis}", type=int, default=default, help=f"1 to {MOST[axis]:,}")
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--zoom", type=float, default=2.0, help="pixels per unit of a PNG")
    parser.add_argument(
        "--out", required=True, help="file to write; its ending says the format: .svg .png .json .csv"
    )


def run(options) -> None:
    out = Path(options.out)
    known = ("csv",) if options.view == LEDGER else tuple(FORMATS)
    if out.suffix.removeprefix(".") not in known:
        raise ValueError(
            f"--out {out}: the ending {out.suffix!r} is no format of the {options.view}; "
            f"expected {', '.join(f'.{form}' for form in known)}"
        )
    content = _content(options, out.suffix.removeprefix("."))
    try:
        out.write_bytes(content)
    except OSError as error:
        raise ValueError(f"cannot write {out} ({error.strerror})") from None
    print(f"{out}: {len(content):,} bytes")


def _content(options, form: str) -> bytes:
    facts = Facts.of(options.model)
    if options.view == LEDGER:
        return ledger_csv(facts).encode()
    if options.select and options.select not in facts.blocks:
        raise ValueError(f"--select {options.select!r} is no block; known: {', '.join(facts.blocks)}")
    try:
        opened = groups(options.open)
    except ValueError as error:
        raise ValueError(f"--open {error}") from None
    step = Step(options.B, options.T, options.phase, options.types)
    dark = options.theme == "dark"
    shown = Picture(options.model, options.view, opened, options.layer, options.select, step, dark)
    return shown.file(form, options.zoom)

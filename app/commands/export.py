"""Write a view as a picture or as data: SVG, PNG, JSON; or the ledger as CSV."""

from pathlib import Path

from k3scope.diagrams.spec.shapes import MOST, PHASES, Step

LEDGER = "ledger"


def arguments(parser) -> None:
    parser.add_argument("view", nargs="?", default="model", help="model: the drawing (default); or ledger")
    parser.add_argument(
        "--model", default="kimi-k3", help="preset, config.json, checkpoint folder or its headers"
    )
    parser.add_argument(
        "--open",
        help="open groups: a,b (default: those of the page; empty: all closed; all: every one; "
        "everything: also tensors, operations)",
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
    out = _ledger(options) if options.view == LEDGER else _diagram(options)
    print(f"{out}: {out.stat().st_size:,} bytes")


def _diagram(options) -> Path:
    from k3scope.diagrams.scene.diagram_file import diagram, format_of

    format_of(options.out)  # before the model is built
    names = ("view", "layer", "select", "phase", "B", "T", "types", "theme")
    more = {name: getattr(options, name) for name in names}
    if options.open is not None:
        more["open"] = options.open
    return diagram(options.model, **more).save(options.out, options.zoom)


def _ledger(options) -> Path:
    from k3scope.app.commands.params import ledger_csv
    from k3scope.diagrams.facts.block_facts import Facts

    out = Path(options.out)
    if out.suffix != ".csv":
        raise ValueError(f"{out}: the ending {out.suffix!r} is no format of the ledger; expected .csv")
    content = ledger_csv(Facts.of(options.model))
    try:
        out.write_bytes(content.encode())
    except OSError as error:
        raise ValueError(f"cannot write {out} ({error.strerror})") from None
    return out

"""Run a prompt and write one view of it: numbers (.npz), a table (.csv), a picture (.svg, .png)."""

from pathlib import Path

from k3scope.app.commands import intervention_options
from k3scope.model.measure.view_names import PLOT_NAMES

SUFFIXES = (".npz", ".csv", ".svg", ".png")


def arguments(parser) -> None:
    parser.add_argument("prompt", help="text, read by the model's tokenizer")
    parser.add_argument("model", nargs="?", default="k3-tiny", help="preset or checkpoint folder")
    parser.add_argument("--view", required=True, choices=list(PLOT_NAMES))
    names = "; ".join(f"{view}: {', '.join(plots)}" for view, plots in PLOT_NAMES.items())
    parser.add_argument("--plot", default="", metavar="NAME", help=f"another picture of the view ({names})")
    parser.add_argument("--layer", type=int, metavar="N", help="one layer instead of all")
    parser.add_argument("--head", type=int, metavar="H", help="one head of that layer")
    parser.add_argument("--token", type=int, metavar="T", help="one token, for plots that need it")
    intervention_options.arguments(parser)
    parser.add_argument(
        "--baseline",
        "--against",
        metavar="PROMPT",
        help="another prompt, or the same without the interventions, to subtract",
    )
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--zoom", type=float, default=2.0, help="pixels per unit of a PNG")
    parser.epilog = (
        "Where the pass has NaN or infinity the first hook point that has is named and the exit status is 1; "
        "the file is written all the same, with what is not finite marked."
    )
    parser.add_argument(
        "--out", required=True, help=f"file to write; its ending says the format: {' '.join(SUFFIXES)}"
    )


def run(options) -> int:
    from k3scope.app.commands.lab_file import encode, pictures
    from k3scope.app.commands.not_finite import report

    out = Path(options.out)
    if out.suffix not in SUFFIXES:
        raise ValueError(
            f"--out {out}: the ending {out.suffix!r} is no format; expected {', '.join(SUFFIXES)}"
        )
    measured, picture, baseline = pictures(options)
    content = encode(measured, picture, options, out.suffix)
    try:
        out.write_bytes(content)
    except OSError as error:
        raise ValueError(f"cannot write {out} ({error.strerror})") from None
    print(picture)
    print(f"{out}: {len(content):,} bytes")
    return report(measured.first_bad, baseline.first_bad if baseline else None)

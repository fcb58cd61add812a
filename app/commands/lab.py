"""Run a prompt and write what one view shows of it: every number (.npz), a table (.csv), a picture."""

import io
from pathlib import Path

import numpy as np

from k3scope.app.commands import intervention_options
from k3scope.app.lab.picture_difference import Pairs, minus
from k3scope.diagrams.drawing.heatmap_svg import plot_svg
from k3scope.diagrams.drawing.png import to_png
from k3scope.model.measure.observe import VIEWS
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_plots import PLOTS
from k3scope.model.runs.lab import lab
from k3scope.model.runs.run import Run

SUFFIXES = (".npz", ".csv", ".svg", ".png")


def arguments(parser) -> None:
    parser.add_argument("prompt", help="text, read by the model's tokenizer")
    parser.add_argument("model", nargs="?", default="k3-tiny", help="preset or checkpoint folder")
    parser.add_argument("--view", required=True, choices=VIEWS)
    names = "; ".join(f"{view}: {', '.join(plots)}" for view, plots in PLOTS.items())
    parser.add_argument("--plot", default="", metavar="NAME", help=f"another picture of the view ({names})")
    parser.add_argument("--layer", type=int, metavar="N", help="one layer instead of all")
    parser.add_argument("--head", type=int, metavar="H", help="one head of that layer")
    parser.add_argument("--token", type=int, metavar="T", help="one token, for plots that need it")
    intervention_options.arguments(parser)
    parser.add_argument(
        "--against", metavar="PROMPT", help="another prompt, or the same without the changes, to subtract"
    )
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--zoom", type=float, default=2.0, help="pixels per unit of a PNG")
    parser.add_argument(
        "--out", required=True, help=f"file to write; its ending says the format: {' '.join(SUFFIXES)}"
    )


def run(options) -> None:
    out = Path(options.out)
    if out.suffix not in SUFFIXES:
        raise ValueError(
            f"--out {out}: the ending {out.suffix!r} is no format; expected {', '.join(SUFFIXES)}"
        )
    changes, sources = intervention_options.changes(options), intervention_options.sources(options)
    passed = lab(options.prompt, options.model, changes, sources, [options.view])
    picture = _picture(passed, options, options.token)
    if options.against is not None:
        picture = _difference(passed, picture, options)
    content = _content(passed, picture, options, out.suffix)
    try:
        out.write_bytes(content)
    except OSError as error:
        raise ValueError(f"cannot write {out} ({error.strerror})") from None
    print(picture)
    print(f"{out}: {len(content):,} bytes")


def _picture(passed: Run, options, token: int | None) -> Picture:
    return passed.picture(options.view, options.layer, options.head, options.plot, token)


def _difference(passed: Run, picture: Picture, options) -> Picture:
    """Less the picture of another run, where both have the same tokens."""
    other = lab(options.against, options.model, views=[options.view])
    pairs = Pairs.of(passed, other)
    token = None if options.token is None else pairs.partner(options.token)
    return minus(picture, _picture(other, options, token), pairs)


def _content(passed: Run, picture: Picture, options, suffix: str) -> bytes:
    if suffix == ".npz":
        arrays = passed.view(options.view).arrays(options.layer, options.head)
        file = io.BytesIO()
        np.savez_compressed(file, **arrays, image=picture.image)
        return file.getvalue()
    if suffix == ".csv":
        return picture.csv().encode()
    svg = plot_svg(picture, options.theme == "dark")
    return to_png(svg, options.zoom) if suffix == ".png" else svg.encode()

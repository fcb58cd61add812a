"""Run a prompt and write what one view shows of it: every number (.npz), a table (.csv), a picture."""

import io
from pathlib import Path

import numpy as np

from diagrams.drawing.png import to_png
from diagrams.plot_svg import plot_svg
from model.intervene import loads
from model.lab import lab
from model.measure.picture import Picture
from model.measure.plots import PLOTS
from model.measure.stream import VIEWS
from model.run import Run

SUFFIXES = (".npz", ".csv", ".svg", ".png")


def arguments(parser) -> None:
    parser.add_argument("prompt", help="text, read by the model's tokenizer")
    parser.add_argument("model", nargs="?", default="k3-random", help="preset or checkpoint folder")
    parser.add_argument("--view", required=True, choices=VIEWS)
    names = "; ".join(f"{view}: {', '.join(plots)}" for view, plots in PLOTS.items())
    parser.add_argument("--plot", default="", metavar="NAME", help=f"another picture of the view ({names})")
    parser.add_argument("--layer", type=int, metavar="N", help="one layer instead of all")
    parser.add_argument("--head", type=int, metavar="H", help="one head of that layer")
    parser.add_argument("--token", type=int, metavar="T", help="one token, for plots that need it")
    parser.add_argument("--change", default="", metavar="JSON", help="interventions on the pass, a JSON list")
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
    passed = lab(options.prompt, options.model, loads(options.change), views=[options.view])
    picture = passed.picture(options.view, options.layer, options.head, options.plot, options.token)
    content = _content(passed, picture, options, out.suffix)
    try:
        out.write_bytes(content)
    except OSError as error:
        raise ValueError(f"cannot write {out} ({error.strerror})") from None
    print(picture)
    print(f"{out}: {len(content):,} bytes")


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

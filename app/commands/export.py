"""Write a view as a picture or as data: SVG, PNG, JSON; or the ledger as CSV."""

import json
from pathlib import Path

from diagrams import spec
from diagrams.drawing.png import to_png
from diagrams.drawing.svg import to_svg
from diagrams.graph import OPEN, scene
from model.presets import DRAWN

SUFFIXES = (".svg", ".png", ".json")


def arguments(parser) -> None:
    parser.add_argument("view", nargs="?", default="model", help="which picture (default: model)")
    parser.add_argument("--model", default="kimi-k3", choices=DRAWN)
    parser.add_argument(
        "--open", default=",".join(OPEN), help="open groups: a,b (empty: all closed; all: every one)"
    )
    parser.add_argument("--select", default="", metavar="ID", help="block to mark")
    parser.add_argument("--theme", choices=["light", "dark"], default="light")
    parser.add_argument("--zoom", type=float, default=2.0, help="pixels per unit of a PNG")
    parser.add_argument(
        "--out", required=True, help="file to write; its ending says the format: .svg .png .json"
    )


def run(options) -> None:
    out = Path(options.out)
    if out.suffix not in SUFFIXES:
        raise ValueError(
            f"--out {out}: the ending {out.suffix!r} is no format; expected {', '.join(SUFFIXES)}"
        )
    if options.select and options.select not in spec.blocks():
        raise ValueError(f"--select {options.select!r} is no block; known: {', '.join(spec.blocks())}")
    drawn = scene(options.model, options.view, _opened(options.open))
    content = export(drawn, out.suffix, options.theme == "dark", options.select, options.zoom)
    try:
        out.write_bytes(content)
    except OSError as error:
        raise ValueError(f"cannot write {out} ({error.strerror})") from None
    print(f"{out}: {len(content):,} bytes")


def export(drawn: dict, suffix: str, dark: bool = False, select: str = "", zoom: float = 2.0) -> bytes:
    """A scene as a file of the format that `suffix` names."""
    if suffix == ".json":
        return json.dumps(drawn, indent=1).encode()
    svg = to_svg(drawn, dark=dark, selected=select)
    return to_png(svg, zoom) if suffix == ".png" else svg.encode()


def _opened(text: str) -> tuple[str, ...]:
    groups = spec.groups() - {"kimi_k3"}
    if text == "all":
        return tuple(sorted(groups))
    named = [part for part in text.split(",") if part]
    for name in named:
        if name not in groups:
            raise ValueError(f"--open {name!r} is no group; known: {', '.join(sorted(groups))}")
    return tuple(sorted(named))

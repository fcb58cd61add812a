"""A drawing of the model as a file: what the page saves, the command line writes and a notebook shows."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from k3scope.diagrams.drawing.png import to_png
from k3scope.diagrams.drawing.svg import to_svg
from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import STEP, Facts
from k3scope.diagrams.scene.graph import OPEN, scene
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.block_spec import nearest
from k3scope.diagrams.spec.shapes import Step

FORMATS = {"svg": "image/svg+xml", "png": "image/png", "json": "application/json"}
THEMES = ("light", "dark")


@dataclass(frozen=True)
class DiagramFile:
    """Everything that decides how the drawing looks, but for where it is looked at."""

    model: str = "kimi-k3"
    view: str = "model"
    open: tuple[str, ...] = OPEN
    layer: int | None = None
    select: str = ""
    step: Step = STEP
    dark: bool = False

    @property
    def name(self) -> str:
        """What a file of it is called, without an ending."""
        layer = "" if self.layer is None else f"layer-{self.layer}"
        return "-".join(filter(None, (self.model, layer, self.select.replace("_", "-"))))

    def scene(self) -> dict:
        """Boxes and edges with coordinates."""
        return scene(self.model, self.view, tuple(sorted(self.open)), self.layer, self.step)

    def graph(self) -> dict:
        """The scene, headed by the options that it was drawn with."""
        about = asdict(self) | asdict(self.step)
        about["theme"] = THEMES[about.pop("dark")]
        del about["step"]
        return about | self.scene()

    def svg(self) -> str:
        """An SVG document; all text in it is text."""
        return to_svg(self.scene(), dark=self.dark, selected=self.select)

    def png(self, zoom: float = 2.0) -> bytes:
        """A PNG with `zoom` pixels per unit of the drawing, 0.1 to 8. ValueError for another zoom."""
        return to_png(self.svg(), zoom)

    def zoom_of(self, pixels: int) -> float:
        """The zoom at which a PNG has so many pixels."""
        drawn = self.scene()
        return math.sqrt(pixels / (drawn["width"] * drawn["height"]))

    def json(self) -> str:
        """The graph as JSON: options, then boxes and edges with coordinates."""
        return json.dumps(self.graph(), indent=1, ensure_ascii=False)

    def encode(self, form: str, zoom: float = 2.0) -> bytes:
        """The content of a file of one of the FORMATS. ValueError for another one."""
        match form:
            case "svg":
                return self.svg().encode()
            case "png":
                return self.png(zoom)
            case "json":
                return self.json().encode()
        raise ValueError(f"{form!r} is no format{nearest(form, FORMATS)}")

    def save(self, path: str | Path, zoom: float = 2.0) -> Path:
        """Write a file whose ending says the format: .svg, .png, .json. ValueError if that cannot be."""
        content = self.encode(format_of(path), zoom)
        try:
            Path(path).write_bytes(content)
        except OSError as error:
            raise ValueError(f"cannot write {path} ({error.strerror})") from None
        return Path(path)

    def _repr_svg_(self) -> str:
        """How a notebook shows it."""
        return self.svg()


def format_of(path: str | Path) -> str:
    """The key of FORMATS that a file's ending names. ValueError for another ending."""
    ending = Path(path).suffix
    if ending.removeprefix(".") not in FORMATS:
        endings = ", ".join(f".{form}" for form in FORMATS)
        raise ValueError(f"{path}: the ending {ending!r} is no format of a diagram; expected {endings}")
    return ending.removeprefix(".")


def parse_open(names: str | Iterable[str]) -> tuple[str, ...]:
    """Groups and blocks by name, as "a,b" or one by one.

    "all" is every group, "everything" goes down to tensors and operations. ValueError for a wrong name.
    """
    allowed = block_spec.blocks().keys() - {"kimi_k3"}
    if names == "all":
        return tuple(sorted(allowed & block_spec.groups()))
    if names == "everything":
        return tuple(sorted(allowed))
    opened = [part for part in (names.split(",") if isinstance(names, str) else names) if part]
    for name in opened:
        if name not in allowed:
            raise ValueError(f"open: {name!r} is no group{nearest(name, allowed)}")
    return tuple(sorted(opened))


def diagram(
    model: str = "kimi-k3",
    *,
    view: str = "model",
    open: str | Iterable[str] = OPEN,
    layer: int | None = None,
    select: str = "",
    phase: str = STEP.phase,
    B: int = STEP.B,
    T: int = STEP.T,
    types: bool = False,
    theme: str = "light",
) -> DiagramFile:
    """The drawing of a model, as `k3scope export` writes it; a notebook shows it.

    `model` is a preset, a config.json or a checkpoint folder; `open` the groups that are open (see
    `parse_open`); `layer` draws one layer with its own variants; `select` marks a block. Shapes are those of
    B sequences of T tokens in a `phase`, "prefill" or "decode"; `types` adds the dtype to each of them.

    ValueError names what cannot be drawn and the nearest name that can: model, view, group, layer, block,
    phase, size or theme.
    """
    facts = Facts.of(str(model))
    if view != "model":
        block_spec.view(view)
    if layer is not None:
        stack.layer(facts.config, layer)
    if select and select not in facts.blocks:
        raise ValueError(f"select: {select!r} is no block of {facts.name}{nearest(select, facts.blocks)}")
    if theme not in THEMES:
        raise ValueError(f"theme: there is no {theme!r}{nearest(theme, THEMES)}")
    step = Step(B, T, phase, types)
    return DiagramFile(str(model), view, parse_open(open), layer, select, step, theme == "dark")

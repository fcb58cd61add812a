"""A picture of the model as a file: what the page shows and what the command line writes are the same."""

import json
from dataclasses import asdict, dataclass

from k3scope.diagrams.drawing.png import to_png
from k3scope.diagrams.drawing.svg import to_svg
from k3scope.diagrams.facts.block_facts import STEP
from k3scope.diagrams.scene.graph import OPEN, scene
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.shapes import Step

FORMATS = {"svg": "image/svg+xml", "png": "image/png", "json": "application/json"}


@dataclass(frozen=True)
class Picture:
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
        return scene(self.model, self.view, tuple(sorted(self.open)), self.layer, self.step)

    def graph(self) -> dict:
        """The scene, headed by what it is a picture of."""
        about = asdict(self) | asdict(self.step)
        about["theme"] = "dark" if about.pop("dark") else "light"
        del about["step"]
        return about | self.scene()

    def file(self, form: str, zoom: float = 2.0) -> bytes:
        """SVG, PNG with `zoom` pixels per unit, or JSON. ValueError for another form or size."""
        if form not in FORMATS:
            raise ValueError(f"{form!r} is no format; expected {', '.join(FORMATS)}")
        if form == "json":
            return json.dumps(self.graph(), indent=1, ensure_ascii=False).encode()
        svg = to_svg(self.scene(), dark=self.dark, selected=self.select)
        return to_png(svg, zoom) if form == "png" else svg.encode()


def groups(text: str) -> tuple[str, ...]:
    """Groups and blocks by name from "a,b"; "all" groups, or "everything" down to tensors and operations.

    ValueError for a name that is none.
    """
    known = block_spec.blocks().keys() - {"kimi_k3"}
    if text == "all":
        return tuple(sorted(known & block_spec.groups()))
    if text == "everything":
        return tuple(sorted(known))
    named = [part for part in text.split(",") if part]
    for name in named:
        if name not in known:
            raise ValueError(f"{name!r} is no group; known: {', '.join(sorted(known))}")
    return tuple(sorted(named))

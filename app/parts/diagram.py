"""The drawing of the model: a scene laid out in Python, drawn and walked in the browser."""

from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import param
from markupsafe import Markup
from panel.custom import JSComponent

from app.state import State
from app.theme import themed
from assets import ROOT
from diagrams import graph, spec
from diagrams.drawing import svg


class Diagram(JSComponent):
    """Draws a scene; a click selects, the toggle of a group asks to open or close it."""

    scene = param.Dict({}, doc="boxes and edges with coordinates, from diagrams.graph.scene")
    selected = param.String("")
    dark = param.Boolean(False)
    live = param.Dict({}, doc="a few words per block, shown on its box")

    _esm = Path(ROOT / "diagram.js")
    _stylesheets: ClassVar = [
        (ROOT / "diagram.css").read_text(encoding="utf-8")
    ]  # Panel serves no Path outside app

    def __init__(self, on_toggle, **params):
        super().__init__(**params)
        self._on_toggle = on_toggle

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict) and data.get("type") == "toggle" and data.get("id") in spec.groups():
            self._on_toggle(data["id"])


def _opened(state: State) -> tuple[str, ...]:
    return tuple(sorted(state.open))


@lru_cache(maxsize=64)
def _sketch(model: str, opened: tuple[str, ...], selected: str) -> Markup:
    scene = graph.scene(model, "model", opened)
    first = scene["nodes"][0]
    return Markup('<div style="--wide:{}px;--axis:{:.3f}">{}</div>').format(
        scene["width"],
        (first["x"] + first["w"] / 2) / scene["width"],
        themed(svg.to_svg(scene, selected=selected)),
    )


def sketch(state: State) -> Markup:
    """The same drawing as plain SVG, for the page to show before its scripts run."""
    return _sketch(state.model, _opened(state), state.select)


def diagram(state: State) -> Diagram:
    """The drawing of the state's model, kept in step both ways."""

    def scene():
        return graph.scene(state.model, "model", _opened(state))

    drawn = Diagram(
        state.toggle, scene=scene(), selected=state.select, dark=state.dark, sizing_mode="stretch_both"
    )

    def chosen(event):
        if event.new == "" or event.new in spec.blocks():
            state.select = event.new

    drawn.param.watch(chosen, "selected")
    state.param.watch(lambda *_: setattr(drawn, "scene", scene()), ["model", "open"])
    state.param.watch(lambda event: setattr(drawn, "selected", event.new), "select")
    state.param.watch(lambda event: setattr(drawn, "dark", event.new), "dark")
    return drawn

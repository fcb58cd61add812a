"""The drawing of the model: a scene laid out in Python, drawn and walked in the browser."""

from functools import cache
from pathlib import Path

import param
from markupsafe import Markup
from panel.custom import JSComponent

from app import link
from app.html import asset
from app.state import State
from app.turn import turn
from assets import ROOT
from diagrams import details, graph, parts, spec, stack
from diagrams.facts import Facts
from diagrams.shapes import Step

SHOWN = ["model", "open", "layer", "phase", "B", "T"]  # what the drawing depends on
SCRIPTS = ("drawing.js", "axes.js", "minimap.js", "diagram.js", "diagram_first.js")


class Diagram(JSComponent):
    """Draws a scene; a click selects, the toggle of a group asks to open or close it.

    The browser draws the first scene by itself, from what `first` puts into the page.
    """

    scene = param.Dict({}, doc="boxes and edges with coordinates; {} stands for the one in the page")
    words = param.Dict({}, doc="what stands in place of the scene's words, by box: those of one layer")
    selected = param.String("")
    camera = param.String("", doc="middle of the stage and zoom, as in the link; '' shows the width")
    dark = param.Boolean(False)
    live = param.Dict({}, doc="a few words per block, shown on its box")

    _esm = Path(ROOT / "diagram_join.js")

    def __init__(self, on_toggle, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._on_toggle = on_toggle

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict) and data.get("type") == "toggle" and data.get("id") in spec.blocks():
            turn(lambda: self._on_toggle(data["id"]))


def _sight(state: State) -> tuple[str, str, tuple[str, ...], int | None, Step]:
    return state.model, "model", tuple(sorted(state.open)), state.layer, state.step


def _drawing(state: State) -> dict:
    return {"scene": graph.template(*_sight(state)), "words": graph.words(state.model, state.layer)}


def first(state: State) -> dict:
    """All that the browser needs to draw before the server's half of the drawing is there."""
    return {**_drawing(state), "selected": _chosen(state), "camera": state.camera, "dark": False, "live": {}}


def _chosen(state: State) -> str:
    """The block, and what is chosen of it: "mla_q_up/q_b_proj.weight"."""
    return f"{state.select}{parts.SEPARATOR}{state.part}" if state.part else state.select


@cache
def script() -> Markup:
    """What draws it; no more than the page itself is needed."""
    return Markup("\n").join(asset(name) for name in SCRIPTS)


def _toggle(state: State, group: str) -> None:
    """Open or close a group; in the picture of one layer it speaks for its variants too."""
    if state.layer is None:
        state.toggle(group)
        return
    view = Facts.of(state.model).view
    together, shown = stack.opened(view, frozenset({group})), stack.opened(view, frozenset(state.open))
    state.open = [g for g in state.open if g not in together] if group in shown else [*state.open, group]


def diagram(state: State) -> Diagram:
    """The drawing of the state's model, kept in step both ways."""
    shown = _drawing(state)
    drawn = Diagram(
        lambda group: _toggle(state, group),
        words=shown["words"],
        selected=_chosen(state),
        camera=state.camera,
        dark=state.dark,
    )

    def chosen(event):
        block, part = parts.split(event.new[:120])
        facts = Facts.of(state.model)
        if event.new == _chosen(state) or (block and block not in facts.blocks):
            return
        there = bool(part) and details.detail(facts, block, part) is not None
        turn(lambda: state.param.update(select=block, part=part if there else ""))

    def moved(event):
        if link.CAMERA.fullmatch(event.new):
            turn(lambda: setattr(state, "camera", event.new))

    def redraw(*_):
        wanted = _drawing(state)
        changed = dict(wanted)
        if changed["scene"] is shown["scene"]:
            del changed["scene"]  # the same picture with other words: nothing else is sent
        shown.update(wanted)
        drawn.param.update(**changed)

    drawn.param.watch(chosen, "selected")
    drawn.param.watch(moved, "camera")
    state.param.watch(redraw, SHOWN)
    state.param.watch(lambda *_: setattr(drawn, "selected", _chosen(state)), ["select", "part"])
    for name, own in (("dark", "dark"), ("camera", "camera")):
        state.param.watch(lambda event, own=own: setattr(drawn, own, event.new), name)
    return drawn

"""The diagram of the model: a scene laid out in Python, drawn and walked in the browser."""

import json
from functools import cache
from hashlib import blake2s

import param
from markupsafe import Markup

from k3scope.app.link import fields
from k3scope.app.link.state import State
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts
from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import block_contents, details, graph
from k3scope.diagrams.spec import block_spec

# in this order: each uses what those before it define
SCRIPTS = ("drawing", "axes", "minimap", "diagram", "subject_preview", "local_model", "diagram_start")
MAX_SELECTED = 120  # characters of the id of a box, a part or an arrow


class Diagram(OrderedComponent):
    """Draws a scene; a click selects, the toggle of a group asks to open or close it.

    The browser draws the first scene by itself, from what `initial_values` puts into the page. Messages of
    the browser: `toggle` is the press that opens or closes a group, `toggles` the number of presses so far;
    `prefetch` names a group that the pointer is over, whose scene is then sent ahead.
    """

    # as text: Bokeh would walk through every number of a dict, a tenth of a second on the event loop
    scene = param.String(
        doc="JSON of boxes and edges with coordinates, see _scene; '' for the one in the page"
    )
    prefetched = param.String(doc="JSON of a scene that may be asked for next")
    layer_texts = param.Dict({}, doc="what replaces texts of the scene, by box: those of one layer")
    selected = param.String("")
    camera = param.String("", doc="middle of the stage and zoom, as in the link; '' shows the width")
    dark = param.Boolean(False)
    live = param.Dict({}, doc="a short text per block, shown on its box")

    _esm = scripts("diagram_connect")

    def __init__(self, on_toggle, on_prefetch, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._on_toggle, self._on_prefetch, self.toggles = on_toggle, on_prefetch, 0

    def _handle_msg(self, data) -> None:
        match data:
            case {"type": "toggle", "id": str(group), "toggles": int(n)} if group in block_spec.blocks():
                dispatch(lambda: self._toggle(group, n))
            case {"type": "prefetch", "id": str(group)} if group in block_spec.blocks():
                dispatch(lambda: self._on_prefetch(group))

    def _toggle(self, group: str, toggles: int) -> None:
        self.toggles = max(self.toggles, toggles)
        self._on_toggle(group)


def _scene(state: State, opened: list[str], toggles: int = 0) -> dict:
    """What is drawn with these groups open.

    `key` names it, `next` the key of the scene that each toggle leads to. `toggles` counts the presses it
    answers: the browser shows a scene it has already by itself, and drops an answer to an earlier press.
    """
    template = graph.template(state.model, "model", tuple(sorted(opened)), state.layer, state.step)
    groups = [node["id"] for node in template["nodes"] if node["group"]]
    after = {group: _key(state, _toggled(state, opened, group)) for group in groups}
    return template | {"key": _key(state, opened), "next": after, "toggles": toggles}


def _key(state: State, opened: list[str]) -> str:
    """Equal for scenes that are the same but for the texts of a layer: layers of one kind share a scene."""
    alike = None if state.layer is None else stack.representative(Facts.of(state.model).config, state.layer)
    return blake2s(repr((state.model, sorted(opened), alike, state.step)).encode(), digest_size=8).hexdigest()


def initial_values(state: State) -> dict:
    """All that the browser needs to draw before the session's half of the diagram is there."""
    return {
        "scene": _scene(state, state.open),
        "layer_texts": graph.layer_texts(state.model, state.layer),
        "selected": _selected(state),
        "camera": state.camera,
        "dark": False,
        "live": {},
    }


def _selected(state: State) -> str:
    """The block, and the part of it: "mla_q_up/q_b_proj.weight"."""
    return f"{state.select}{block_contents.SEPARATOR}{state.part}" if state.part else state.select


@cache
def script() -> Markup:
    """The scripts that draw it; they need nothing but the page itself."""
    return Markup(scripts(*SCRIPTS))


def _toggled(state: State, opened: list[str], group: str) -> list[str]:
    """The groups open once this one is opened or closed; in one layer it speaks for its variants too."""
    together, displayed = {group}, opened
    if state.layer is not None:
        view = Facts.of(state.model).view
        together, displayed = stack.opened(view, frozenset({group})), stack.opened(view, frozenset(opened))
    return [g for g in opened if g not in together] if group in displayed else [*opened, group]


def diagram(state: State) -> Diagram:
    """The diagram of the state's model, kept in step both ways."""
    displayed = {"key": _key(state, state.open)}
    drawn = Diagram(
        lambda group: setattr(state, "open", _toggled(state, state.open, group)),
        lambda group: setattr(
            drawn, "prefetched", json.dumps(_scene(state, _toggled(state, state.open, group)))
        ),
        layer_texts=graph.layer_texts(state.model, state.layer),
        selected=_selected(state),
        camera=state.camera,
        dark=state.dark,
    )

    def take_selection(event):
        block, part = block_contents.split_id(event.new[:MAX_SELECTED])
        facts = Facts.of(state.model)
        if event.new == _selected(state) or (block and block not in facts.blocks):
            return
        exists = bool(part) and details.detail(facts, block, part) is not None
        dispatch(lambda: state.param.update(select=block, part=part if exists else ""))

    def take_camera(event):
        if fields.CAMERA.fullmatch(event.new):
            dispatch(lambda: setattr(state, "camera", event.new))

    def redraw(*_):
        changed = {"layer_texts": graph.layer_texts(state.model, state.layer)}
        key = _key(state, state.open)
        if key != displayed["key"]:  # else the same scene with other texts: nothing else is sent
            changed["scene"] = json.dumps(_scene(state, state.open, drawn.toggles))
        displayed["key"] = key
        drawn.param.update(**changed)

    drawn.param.watch(take_selection, "selected")
    drawn.param.watch(take_camera, "camera")
    state.follow("diagram", redraw)
    state.follow("diagram.selection", lambda *_: setattr(drawn, "selected", _selected(state)))
    state.follow("diagram.theme", lambda event: setattr(drawn, "dark", event.new))
    state.follow("diagram.camera", lambda event: setattr(drawn, "camera", event.new))
    return drawn

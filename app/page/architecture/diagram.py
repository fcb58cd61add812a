"""The drawing of the model: a scene laid out in Python, drawn and walked in the browser."""

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

SCRIPTS = ("drawing", "axes", "minimap", "diagram", "preview", "stand_in", "diagram_first")


class Diagram(OrderedComponent):
    """Draws a scene; a click selects, the toggle of a group asks to open or close it.

    The browser draws the first scene by itself, from what `first` puts into the page.
    """

    scene = param.Dict({}, doc="boxes and edges with coordinates, see _scene; {} for the one in the page")
    ahead = param.Dict({}, doc="a scene that may be asked for next")
    words = param.Dict({}, doc="what stands in place of the scene's words, by box: those of one layer")
    selected = param.String("")
    camera = param.String("", doc="middle of the stage and zoom, as in the link; '' shows the width")
    dark = param.Boolean(False)
    live = param.Dict({}, doc="a few words per block, shown on its box")

    _esm = scripts("diagram_join")

    def __init__(self, on_toggle, on_near, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._on_toggle, self._on_near, self.asked = on_toggle, on_near, 0

    def _handle_msg(self, data) -> None:
        """`toggle` opens or closes a group, the nth time; `near`: it may soon be."""
        match data:
            case {"type": "toggle", "id": str(group), "n": int(n)} if group in block_spec.blocks():
                dispatch(lambda: self._toggled(group, n))
            case {"type": "near", "id": str(group)} if group in block_spec.blocks():
                dispatch(lambda: self._on_near(group))

    def _toggled(self, group: str, n: int) -> None:
        self.asked = max(self.asked, n)
        self._on_toggle(group)


def _scene(state: State, opened: list[str], asked: int = 0) -> dict:
    """What is drawn with these groups open: its key, the key of what each toggle leads to, toggles so far."""
    drawn = graph.template(state.model, "model", tuple(sorted(opened)), state.layer, state.step)
    groups = [node["id"] for node in drawn["nodes"] if node["group"]]
    after = {group: _key(state, _toggled(state, opened, group)) for group in groups}
    return drawn | {"key": _key(state, opened), "next": after, "n": asked}


def _key(state: State, opened: list[str]) -> str:
    """Equal for drawings that are the same but for the words of a layer."""
    same = None if state.layer is None else stack.representative(Facts.of(state.model).config, state.layer)
    return blake2s(repr((state.model, sorted(opened), same, state.step)).encode(), digest_size=8).hexdigest()


def first(state: State) -> dict:
    """All that the browser needs to draw before the server's half of the drawing is there."""
    return {
        "scene": _scene(state, state.open),
        "words": graph.layer_texts(state.model, state.layer),
        "selected": _chosen(state),
        "camera": state.camera,
        "dark": False,
        "live": {},
    }


def _chosen(state: State) -> str:
    """The block, and what is chosen of it: "mla_q_up/q_b_proj.weight"."""
    return f"{state.select}{block_contents.SEPARATOR}{state.part}" if state.part else state.select


@cache
def script() -> Markup:
    """What draws it; no more than the page itself is needed."""
    return Markup(scripts(*SCRIPTS))


def _toggled(state: State, opened: list[str], group: str) -> list[str]:
    """The groups open once this one is opened or closed; in one layer it speaks for its variants too."""
    together, shown = {group}, opened
    if state.layer is not None:
        view = Facts.of(state.model).view
        together, shown = stack.opened(view, frozenset({group})), stack.opened(view, frozenset(opened))
    return [g for g in opened if g not in together] if group in shown else [*opened, group]


def diagram(state: State) -> Diagram:
    """The drawing of the state's model, kept in step both ways."""
    shown = {"key": _key(state, state.open)}
    drawn = Diagram(
        lambda group: setattr(state, "open", _toggled(state, state.open, group)),
        lambda group: setattr(drawn, "ahead", _scene(state, _toggled(state, state.open, group))),
        words=graph.layer_texts(state.model, state.layer),
        selected=_chosen(state),
        camera=state.camera,
        dark=state.dark,
    )

    def chosen(event):
        block, part = block_contents.split_id(event.new[:120])
        facts = Facts.of(state.model)
        if event.new == _chosen(state) or (block and block not in facts.blocks):
            return
        there = bool(part) and details.detail(facts, block, part) is not None
        dispatch(lambda: state.param.update(select=block, part=part if there else ""))

    def moved(event):
        if fields.CAMERA.fullmatch(event.new):
            dispatch(lambda: setattr(state, "camera", event.new))

    def redraw(*_):
        changed = {"words": graph.layer_texts(state.model, state.layer)}
        key = _key(state, state.open)
        if key != shown["key"]:  # else the same picture with other words: nothing else is sent
            changed["scene"] = _scene(state, state.open, drawn.asked)
        shown["key"] = key
        drawn.param.update(**changed)

    drawn.param.watch(chosen, "selected")
    drawn.param.watch(moved, "camera")
    state.follow("diagram", redraw)
    state.follow("diagram.selection", lambda *_: setattr(drawn, "selected", _chosen(state)))
    state.follow("diagram.theme", lambda event: setattr(drawn, "dark", event.new))
    state.follow("diagram.camera", lambda event: setattr(drawn, "camera", event.new))
    return drawn

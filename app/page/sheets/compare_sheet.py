"""The Compare view: the drawn model beside another one, or beside a config.json that a visitor brings."""

from collections import Counter
from functools import lru_cache

import param

from k3scope.app import models
from k3scope.app.link.state import State
from k3scope.app.models import title
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.cost import compare_models
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import side_by_side
from k3scope.diagrams.spec import block_spec

USUAL = {"kimi-k3": "kimi-linear-48b"}  # who stands beside whom when nobody is named


def other(state: State) -> str:
    """The name of the second model."""
    return state.compare or USUAL.get(state.model, "kimi-k3")


class CompareView(OrderedComponent):
    """Fills the place of the Compare view in page.html; a file brought stays with this visitor."""

    results = param.String(doc="the comparison as HTML")
    pair = param.Dict({}, doc="two scenes of one layout, the names above them and what differs")
    selected = param.String(doc="block that is chosen on both sides")
    other = param.String(doc="name of the second model; empty for a file")
    wrong = param.String(doc="why a file cannot be compared")
    asked = param.Integer(0, doc="grows with each answer to a file, so that an equal one is heard too")

    _esm = scripts("stand_in", "compare")

    def __init__(self, state: State, **more):
        super().__init__(width=0, height=0, margin=0, **more)
        self._state, self._file = state, None
        state.follow("compare", self.show)
        state.follow("compare.drawing", self._draw)
        state.follow("compare.other", self._named)
        state.follow("compare.selection", lambda event: setattr(self, "selected", event.new))
        self.selected = state.select
        self.show()

    @property
    def controls(self) -> str:
        shown = [(name, title(name)) for name in models.compared()]
        return render("compare_controls.html", others=shown, chosen=other(self._state))

    def show(self, *_) -> None:
        """Compute only what is looked at."""
        state = self._state
        self.other = "" if self._file else other(state)
        if state.view != "compare":
            return
        self.results = (
            render_pair(Facts.of(state.model), self._file, title(state.model), self._file.name)
            if self._file
            else named(state.model, other(state))
        )
        self._draw()

    def _draw(self, *_) -> None:
        state = self._state
        if state.view != "compare":
            return
        second = self._file or Facts.of(other(state))
        names = title(state.model), self._file.name if self._file else title(second.name)
        self.pair = drawn(Facts.of(state.model), second, names, tuple(state.open), state.step)

    def _named(self, *_) -> None:
        self._file, self.wrong = None, ""
        self.show()

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict):
            dispatch(lambda: self._hear(data))

    def _hear(self, data: dict) -> None:
        """`with` names a model; `config` is the text of a file; `select` and `toggle` name a box."""
        state = self._state
        if data.get("with") in models.compared():
            self._file, self.wrong = None, ""
            state.compare = data["with"]
            self.show()
        elif isinstance(text := data.get("config"), str):
            self._bring(text, str(data.get("name", ""))[:60] or "config.json")
        elif data.get("toggle") in tuple(block_spec.blocks()):
            state.toggle(data["toggle"])
        elif data.get("select") in ("", *Facts.of(state.model).blocks):
            state.param.update(select=data["select"], part="")

    def _bring(self, text: str, name: str) -> None:
        try:
            self._file, self.wrong = compare_models.facts_of(compare_models.read_config(text), name), ""
            self._state.view = "compare"
            self.show()
        except ValueError as error:
            self.wrong = f"{name}: {str(error).removeprefix('config.json: ')}"
        self.asked += 1


@lru_cache(maxsize=32)
def named(a: str, b: str) -> str:
    return render_pair(Facts.of(a), Facts.of(b), title(a), title(b))


@lru_cache(maxsize=16)
def drawn(a: Facts, b: Facts, names: tuple[str, str], opened: tuple[str, ...], step) -> dict:
    """What the browser needs to draw both, and a line that says how much differs."""
    found = side_by_side.pair(a, b, opened, step)
    count = Counter(found.marks.values())
    said = [("only", f"{count['left']} only in {names[0]}")] if count["left"] else []
    said += [("only", f"{count['right']} only in {names[1]}")] if count["right"] else []
    said += [("other", f"{count['other']} built differently"), ("size", f"{count['size']} with other sizes")]
    said += [("same", f"{count['same']} equal")] if count["same"] else []
    return {"left": found.left, "right": found.right, "names": names, "said": said}


def render_pair(a: Facts, b: Facts, left: str, right: str) -> str:
    found = compare_models.compare(a, b)
    return render(
        "compare.html",
        names=(left, right),
        different=[f for f in found.fields if not f.same],
        equal=[f for f in found.fields if f.same],
        totals=found.totals,
        blocks=found.blocks,
        sums=(a.totals.total, b.totals.total),
        strips=[
            (name, f.config.kinds, f.config.dense_layers, compare_models.pattern(f.config.kinds))
            for name, f in ((left, a), (right, b))
        ],
        most=max(a.config.layers, b.config.layers),
    )

"""The Compare view: the drawn model beside another one, or beside a config.json that a visitor brings."""

from collections import Counter
from functools import lru_cache

import param

from k3scope.app.link.state import State
from k3scope.app.models import compared, title
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.cost import compare_models
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import side_by_side
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.shapes import Step

DEFAULT_OTHER = {"kimi-k3": "kimi-linear-48b"}  # by drawn model, when the link names none; else kimi-k3
MAX_NAME = 60  # characters of the name of a file


def other(state: State) -> str:
    """The name of the second model."""
    return state.compare or DEFAULT_OTHER.get(state.model, "kimi-k3")


class CompareView(OrderedComponent):
    """Fills the Compare view in page.html; a file that a visitor brings stays in this session.

    Messages of the browser: `{with}` names a model, `{config, name}` is the text of a file and its name,
    `{select}` and `{toggle}` name a box.
    """

    results = param.String(doc="the comparison as HTML")
    pair = param.Dict({}, doc="two scenes of one layout, see pair_of_scenes")
    selected = param.String(doc="block that is chosen on both sides")
    other = param.String(doc="name of the second model; empty for a file")
    problem = param.String(doc="why a file cannot be compared")
    answers = param.Integer(0, doc="files answered so far: the same problem twice is sent twice")

    _esm = scripts("local_model", "compare")

    def __init__(self, state: State, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._state, self._file = state, None
        state.follow("compare", self.show)
        state.follow("compare.drawing", self._draw)
        state.follow("compare.other", self._drop_file)
        state.follow("compare.selection", lambda event: setattr(self, "selected", event.new))
        self.selected = state.select
        self.show()

    @property
    def controls(self) -> str:
        """The form above the comparison, as HTML."""
        others = [(name, title(name)) for name in compared()]
        return render("compare_controls.html", others=others, other=other(self._state))

    def show(self, *_) -> None:
        """Compute only when the view is open."""
        state = self._state
        self.other = "" if self._file else other(state)
        if state.view != "compare":
            return
        self.results = (
            comparison(Facts.of(state.model), self._file, title(state.model), self._file.name)
            if self._file
            else comparison_by_name(state.model, other(state))
        )
        self._draw()

    def _draw(self, *_) -> None:
        state = self._state
        if state.view != "compare":
            return
        second = self._file or Facts.of(other(state))
        names = title(state.model), self._file.name if self._file else title(second.name)
        self.pair = pair_of_scenes(Facts.of(state.model), second, names, tuple(state.open), state.step)

    def _drop_file(self, *_) -> None:
        self._file, self.problem = None, ""
        self.show()

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict):
            dispatch(lambda: self._take(data))

    def _take(self, data: dict) -> None:
        state = self._state
        if data.get("with") in compared():
            self._file, self.problem = None, ""
            state.compare = data["with"]
            self.show()
        elif isinstance(text := data.get("config"), str):
            self._take_file(text, str(data.get("name", ""))[:MAX_NAME] or "config.json")
        elif data.get("toggle") in tuple(block_spec.blocks()):
            state.toggle(data["toggle"])
        elif data.get("select") in ("", *Facts.of(state.model).blocks):
            state.param.update(select=data["select"], part="")

    def _take_file(self, text: str, name: str) -> None:
        """Compare with the model of a config.json; what was there stays when the text is none."""
        try:
            self._file, self.problem = compare_models.facts_of(compare_models.read_config(text), name), ""
            self._state.view = "compare"
            self.show()
        except ValueError as error:
            self.problem = f"{name}: {str(error).removeprefix('config.json: ')}"
        self.answers += 1


@lru_cache(maxsize=32)
def comparison_by_name(a: str, b: str) -> str:
    """The comparison of two models that are drawn or registered here."""
    return comparison(Facts.of(a), Facts.of(b), title(a), title(b))


@lru_cache(maxsize=16)
def pair_of_scenes(a: Facts, b: Facts, names: tuple[str, str], opened: tuple[str, ...], step: Step) -> dict:
    """The two scenes, their names, and as `counts` how many blocks differ how: mark and text."""
    pair = side_by_side.pair(a, b, opened, step)
    count = Counter(pair.marks.values())
    counts = [("only", f"{count['left']} only in {names[0]}")] if count["left"] else []
    counts += [("only", f"{count['right']} only in {names[1]}")] if count["right"] else []
    counts += [
        ("other", f"{count['other']} built differently"),
        ("size", f"{count['size']} with other sizes"),
    ]
    counts += [("same", f"{count['same']} equal")] if count["same"] else []
    return {"left": pair.left, "right": pair.right, "names": names, "counts": counts}


def comparison(a: Facts, b: Facts, left: str, right: str) -> str:
    """Everything below the controls; `left` and `right` are the names on the page."""
    compared_models = compare_models.compare(a, b)
    return render(
        "compare.html",
        names=(left, right),
        different=[f for f in compared_models.fields if not f.same],
        equal=[f for f in compared_models.fields if f.same],
        totals=compared_models.totals,
        blocks=compared_models.blocks,
        sums=(a.totals.total, b.totals.total),
        strips=[
            (name, f.config.kinds, f.config.dense_layers, compare_models.pattern(f.config.kinds))
            for name, f in ((left, a), (right, b))
        ],
        max_layers=max(a.config.layers, b.config.layers),
    )

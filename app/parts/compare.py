"""The Compare view: the drawn model beside another one, or beside a config.json that a visitor brings."""

from functools import lru_cache
from pathlib import Path

import param
from panel.custom import JSComponent

from app import models
from app.html import render
from app.parts.header import title
from app.state import State
from assets import ROOT
from diagrams import compare as compared
from diagrams.facts import Facts

USUAL = {"kimi-k3": "kimi-linear-48b"}  # who stands beside whom when nobody is named


def other(state: State) -> str:
    """The name of the second model."""
    return state.compare or USUAL.get(state.model, "kimi-k3")


class CompareView(JSComponent):
    """Fills the place of the Compare view in page.html; a file brought stays with this visitor."""

    results = param.String(doc="the comparison as HTML")
    other = param.String(doc="name of the second model; empty for a file")
    wrong = param.String(doc="why a file cannot be compared")
    asked = param.Integer(0, doc="grows with each answer to a file, so that an equal one is heard too")

    _esm = Path(ROOT / "compare.js")

    def __init__(self, state: State, **more):
        super().__init__(width=0, height=0, margin=0, **more)
        self._state, self._file = state, None
        state.param.watch(self.show, ["view", "model"])
        state.param.watch(self._named, "compare")
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

    def _named(self, *_) -> None:
        self._file, self.wrong = None, ""
        self.show()

    def _handle_msg(self, data) -> None:
        """`with` names a model; `config` is the text of a file."""
        if not isinstance(data, dict):
            return
        if data.get("with") in models.compared():
            self._file, self.wrong = None, ""
            self._state.compare = data["with"]
            self.show()
        elif isinstance(text := data.get("config"), str):
            self._bring(text, str(data.get("name", ""))[:60] or "config.json")

    def _bring(self, text: str, name: str) -> None:
        try:
            self._file, self.wrong = compared.facts_of(compared.read_config(text), name), ""
            self.show()
        except ValueError as error:
            self.wrong = f"{name}: {str(error).removeprefix('config.json: ')}"
        self.asked += 1


@lru_cache(maxsize=32)
def named(a: str, b: str) -> str:
    return render_pair(Facts.of(a), Facts.of(b), title(a), title(b))


def render_pair(a: Facts, b: Facts, left: str, right: str) -> str:
    found = compared.compare(a, b)
    return render(
        "compare.html",
        names=(left, right),
        different=[f for f in found.fields if not f.same],
        equal=[f for f in found.fields if f.same],
        totals=found.totals,
        blocks=found.blocks,
        sums=(a.totals.total, b.totals.total),
        strips=[
            (name, f.config.kinds, f.config.dense_layers, compared.pattern(f.config.kinds))
            for name, f in ((left, a), (right, b))
        ],
        most=max(a.config.layers, b.config.layers),
    )

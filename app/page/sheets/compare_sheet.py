"""The Compare view: the drawn model beside another one, or beside a config.json that a visitor brings."""

from functools import partial

import param

from k3scope.app.link.state import State
from k3scope.app.models import compared, title
from k3scope.app.page.kit.background import Background
from k3scope.app.page.kit.events import OrderedComponent, dispatch, when_loaded
from k3scope.app.page.kit.static import scripts
from k3scope.app.page.kit.templates import render
from k3scope.app.page.sheets import comparison
from k3scope.app.page.sheets.comparison import Other
from k3scope.app.pool.task import Task
from k3scope.diagrams.cost import compare_models
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec

DEFAULT_OTHER = {"kimi-k3": "kimi-linear-48b"}  # by drawn model, when the link names none; else kimi-k3
SECONDS = 20  # for one comparison
MAX_NAME = 60  # characters of the name of a file


def other(state: State) -> str:
    """The name of the second model."""
    return state.compare or DEFAULT_OTHER.get(state.model, "kimi-k3")


class CompareView(OrderedComponent):
    """Fills the Compare view in page.html; a file that a visitor brings stays in this session.

    Messages of the browser: `{with}` names a model, `{config, name}` is the text of a file and its name,
    `{cancel}` stops what is on its way, `{select}` and `{toggle}` name a box.
    """

    results = param.String(doc="the comparison as HTML")
    pair = param.String(doc="JSON of two scenes of one layout, see pair_of_scenes; '' before there are any")
    selected = param.String(doc="block that is chosen on both sides")
    other = param.String(doc="name of the second model; empty for a file")
    problem = param.String(doc="why a file cannot be compared")
    pending = param.String(doc="how a comparison stands that is on its way; '' when there is none")
    answers = param.Integer(0, doc="files answered so far: the same problem twice is sent twice")

    _esm = scripts("local_model", "compare")

    def __init__(self, state: State, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._state = state
        self._file: Other | None = None
        self._asked: tuple = ()
        self._making = Background(lambda text: setattr(self, "pending", text))
        state.follow("compare", self.show)
        state.follow("compare.drawing", self.show)
        state.follow("compare.other", self._drop_file)
        state.follow("compare.selection", lambda event: setattr(self, "selected", event.new))
        self.selected = state.select
        when_loaded(self.show)

    @property
    def controls(self) -> str:
        """The form above the comparison, as HTML."""
        others = [(name, title(name)) for name in compared()]
        return render("compare_controls.html", others=others, other=other(self._state))

    def show(self, *_) -> None:
        """Compute only when the view is open."""
        state = self._state
        self.other = "" if self._file else other(state)
        if state.view == "compare":
            self._request(self._file or Other(other(state)))

    def _request(self, second: Other) -> None:
        """Have the comparison made by the pool; what is shown stays until it is there."""
        state = self._state
        if self._making.cancel():  # nobody waits for what was asked before
            self.answers += bool(self._asked[1].config)
        asked = self._asked = (state.model, second, tuple(state.open), state.step)
        task = Task("The comparison", comparison.of, asked, SECONDS, id(state))
        self._making.start(task, partial(self._take_made, asked), partial(self._refuse, asked))

    def _take_made(self, asked: tuple, made: tuple[str, str]) -> None:
        if asked != self._asked:
            return
        if asked[1].config:
            self._file, self.other, self._state.view = asked[1], "", "compare"
        self.problem = ""
        self.results, self.pair = made
        self.answers += bool(asked[1].config)

    def _refuse(self, asked: tuple, why: str) -> None:
        """Say why there is no comparison; what was there stays."""
        if asked != self._asked:
            return
        second, why = asked[1], why.removeprefix("config.json: ").removesuffix(".")
        self.problem = f"{second.title}: {why}" if second.config else why
        self.answers += 1

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
            name = str(data.get("name", ""))[:MAX_NAME] or "config.json"
            self._request(Other(name, text[: compare_models.LARGEST_FILE + 1] or " "))
        elif data.get("cancel") is True:
            self._making.cancel()
        elif data.get("toggle") in tuple(block_spec.blocks()):
            state.toggle(data["toggle"])
        elif data.get("select") in ("", *Facts.of(state.model).blocks):
            state.param.update(select=data["select"], part="")

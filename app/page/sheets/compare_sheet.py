"""The Compare view: the drawn model beside another one, or beside a config.json that a visitor brings."""

from concurrent.futures import Future
from functools import partial

import param

from k3scope.app.link.state import State
from k3scope.app.models import compared, title
from k3scope.app.page.kit.events import OrderedComponent, dispatch, when_done, when_loaded
from k3scope.app.page.kit.static import scripts
from k3scope.app.page.kit.templates import render
from k3scope.app.page.sheets import comparison
from k3scope.app.page.sheets.comparison import Other
from k3scope.app.pool.pool import DRAWING, submit
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
    `{select}` and `{toggle}` name a box.
    """

    results = param.String(doc="the comparison as HTML")
    pair = param.String(doc="JSON of two scenes of one layout, see pair_of_scenes; '' before there are any")
    selected = param.String(doc="block that is chosen on both sides")
    other = param.String(doc="name of the second model; empty for a file")
    problem = param.String(doc="why a file cannot be compared")
    answers = param.Integer(0, doc="files answered so far: the same problem twice is sent twice")

    _esm = scripts("local_model", "compare")

    def __init__(self, state: State, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._state = state
        self._file: Other | None = None
        self._asked: tuple = ()
        self._made: Future | None = None  # on its way
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
        if self._made is not None and self._made.cancel():  # nobody waits for what was asked before
            self.answers += bool(self._asked[1].config)
        asked = self._asked = (state.model, second, tuple(state.open), state.step)
        try:
            made = self._made = submit(
                DRAWING, "The comparison", comparison.of, *asked, seconds=SECONDS, visitor=id(state)
            )
        except ValueError as error:
            self._refuse(second, error)
            return
        when_done(made, partial(self._take_made, asked, made))

    def _take_made(self, asked: tuple, made: Future) -> None:
        if asked != self._asked:
            return
        second, self._made = asked[1], None
        if error := made.exception():
            self._refuse(second, error)
            return
        if second.config:
            self._file, self.other, self._state.view = second, "", "compare"
        self.problem = ""
        self.results, self.pair = made.result()
        self.answers += bool(second.config)

    def _refuse(self, second: Other, error: BaseException) -> None:
        """Say why there is no comparison; what was there stays."""
        why = str(error).removeprefix("config.json: ").removesuffix(".")
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
        elif data.get("toggle") in tuple(block_spec.blocks()):
            state.toggle(data["toggle"])
        elif data.get("select") in ("", *Facts.of(state.model).blocks):
            state.param.update(select=data["select"], part="")

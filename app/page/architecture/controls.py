"""What steers the diagram: search, the strip by keyboard, the step that shapes are for, files of it."""

from base64 import b64encode
from dataclasses import asdict
from functools import partial

import param

from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.query import parse_update
from k3scope.app.link.state import State
from k3scope.app.page.architecture.exported_file import content_of
from k3scope.app.page.kit.background import Background
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts
from k3scope.app.page.kit.templates import render
from k3scope.app.pool.task import Task
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import block_contents, diagram_file, search

MAX_QUERY = 100  # characters of a search
MAX_HIT = 200  # characters of the id of a hit
EXPORT_SECONDS = 30  # for one file


class Controls(OrderedComponent):
    """Takes what is typed and pressed around the diagram to the state, and shows the hits of a search.

    Messages of the browser: `{query}` is typed into the search, `{choose}` is the hit that is opened, `{go}`
    a part of a link, `{export}` the format of a file, `{cancel_export}` stops it. The answer to `export` is
    the message `{says}`, how it stands and "" at its end, and then the file, `{name, type, base64, note}`, or
    `{problem}`, why there is none.
    """

    results = param.Dict({}, doc="of the search: its query, and its hits")
    step = param.Dict(
        {}, doc="phase, B, T and types as they are; writes: number that makes each answer differ"
    )

    _esm = scripts("export", "controls")

    def __init__(self, state: State, targets: LinkTargets, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._state, self._targets = state, targets
        self._files = Background(lambda text: self._send_msg({"says": text}))

    def _handle_msg(self, data) -> None:
        if not isinstance(data, dict):
            return
        if data.get("cancel_export") is True:
            dispatch(self._files.cancel)
        if data.get("export") in tuple(diagram_file.FORMATS):
            dispatch(partial(self._export, data["export"]))
        for name, act in (("go", self._go), ("query", self._search), ("choose", self._choose)):
            if isinstance(data.get(name), str):
                dispatch(partial(act, data[name]))

    def _export(self, form: str) -> None:
        """The diagram as a file for the browser to save, made by the pool: it may take a moment."""
        file = displayed(self._state)
        task = Task(f"The {form.upper()}", content_of, (file, form), EXPORT_SECONDS, id(self._state))
        refuse = lambda why: self._send_msg({"problem": why})  # noqa: E731
        self._files.start(task, partial(self._send_file, f"{file.name}.{form}", form), refuse)

    def _send_file(self, name: str, form: str, made: tuple[bytes, str]) -> None:
        content, note = made
        file = {"name": name, "type": diagram_file.FORMATS[form], "base64": b64encode(content).decode()}
        self._send_msg(file | {"note": note})

    def _go(self, link: str) -> None:
        """A part of a link, as from `data-go`; one that is wrong is reported, and the field set back."""
        self._state.param.update(**parse_update(link, self._targets, self._state.linked()))
        self.step = {**step(self._state), "writes": self.step.get("writes", 0) + 1}

    def _search(self, query: str) -> None:
        query = query[:MAX_QUERY]
        hits = search.search(Facts.of(self._state.model), query)
        self.results = {"query": query, "hits": [asdict(hit) for hit in hits]}

    def _choose(self, hit: str) -> None:
        """Select a hit: the groups around it opened, in the layer on show when it is there.

        A tensor is selected in its block: "mla_q_up/q_b_proj.weight".
        """
        state, facts = self._state, Facts.of(self._state.model)
        block, part = block_contents.split_id(hit[:MAX_HIT])
        if block not in facts.blocks or (part and part not in block_contents.part_ids(facts, block)):
            return
        around = [*search.around(facts, block), *([block] if part else [])]
        layers = facts.block(block).layers
        elsewhere = state.layer is not None and bool(layers) and state.layer not in layers
        state.param.update(
            view="model",
            layer=None if elsewhere else state.layer,
            open=list(dict.fromkeys([*state.open, *around])),
            select=block,
            part=part,
        )


def displayed(state: State) -> diagram_file.DiagramFile:
    """The diagram that is on the screen now, as a file."""
    return diagram_file.DiagramFile(
        state.model, "model", tuple(state.open), state.layer, state.select, state.step, state.dark
    )


def step(state: State) -> dict:
    """The step that shapes are for, as the browser gets it."""
    return {"phase": state.phase, "B": state.B, "T": state.T, "types": state.types}


def controls_html(state: State, targets: LinkTargets) -> str:
    """The controls below the diagram."""
    return render("controls.html", step=step(state), groups=",".join(sorted(targets.groups - {"kimi_k3"})))


def controls(state: State, targets: LinkTargets) -> Controls:
    """The controls of one visitor, kept in step with the state."""
    component = Controls(state, targets, step=step(state))
    state.follow("controls", lambda *_: setattr(component, "step", step(state)))
    return component

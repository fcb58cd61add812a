"""What steers the drawing: search, the strip by keyboard, the step that shapes are for, files of it."""

from base64 import b64encode
from dataclasses import asdict
from functools import partial

import param
from panel.custom import JSComponent

from k3scope.app.link.fields import LinkTargets
from k3scope.app.link.query import parse_update
from k3scope.app.link.state import State
from k3scope.app.page.kit.events import dispatch
from k3scope.app.page.kit.static import scripts
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import block_contents, diagram_file, search

LONGEST = 100  # characters of a query


class Controls(JSComponent):
    """Listens to the fields of page.html and shows what was found."""

    found = param.Dict({}, doc="the query and its hits")
    step = param.Dict({}, doc="phase, B, T and types as they are now")

    _esm = scripts("files", "controls")

    def __init__(self, state: State, targets: LinkTargets, **more):
        super().__init__(width=0, height=0, margin=0, **more)
        self._state, self._targets, self._newest = state, targets, 0

    def _handle_msg(self, data) -> None:
        if isinstance(data, dict) and isinstance(data.get("n"), int):
            if data["n"] < self._newest:
                return  # server threads may turn two key presses around: the later one counts
            self._newest = data["n"]
        if isinstance(data, dict) and data.get("picture") in tuple(diagram_file.FORMATS):
            self._picture(data["picture"])
        for name, act in (("go", self._go), ("find", self._find), ("choose", self._choose)):
            if isinstance(data, dict) and isinstance(data.get(name), str):
                dispatch(partial(act, data[name]))

    def _picture(self, form: str) -> None:
        """The drawing as a file for the browser to keep; made on this thread, as it may take a moment."""
        shown = drawn(self._state)
        content = b64encode(shown.encode(form)).decode()
        answer = {"name": f"{shown.name}.{form}", "type": diagram_file.FORMATS[form], "base64": content}
        dispatch(partial(self._send_msg, answer))

    def _go(self, wanted: str) -> None:
        """Words of the link, as from `data-go`; what cannot be read is said, and the field set back."""
        self._state.param.update(**parse_update(wanted, self._targets, self._state.linked()))
        self.step = {**step(self._state), "n": self.step.get("n", 0) + 1}

    def _find(self, query: str) -> None:
        query = query[:LONGEST]
        hits = search.search(Facts.of(self._state.model), query)
        self.found = {"query": query, "hits": [asdict(hit) for hit in hits]}

    def _choose(self, found: str) -> None:
        """Show what was found: the groups around it opened, in the layer on show when it is there.

        A tensor is shown in its block: "mla_q_up/q_b_proj.weight".
        """
        state, facts = self._state, Facts.of(self._state.model)
        block, part = block_contents.split_id(found[:200])
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


def drawn(state: State) -> diagram_file.DiagramFile:
    """The picture that is on the screen now."""
    shown = state.model, "model", tuple(state.open), state.layer, state.select, state.step, state.dark
    return diagram_file.DiagramFile(*shown)


def step(state: State) -> dict:
    return {"phase": state.phase, "B": state.B, "T": state.T, "types": state.types}


def bar(state: State, targets: LinkTargets) -> str:
    """The controls below the drawing, as HTML."""
    return render("controls.html", now=step(state), groups=",".join(sorted(targets.groups - {"kimi_k3"})))


def controls(state: State, targets: LinkTargets) -> Controls:
    """The controls of one visitor, kept in step with the state."""
    made = Controls(state, targets, step=step(state))
    state.follow("controls", lambda *_: setattr(made, "step", step(state)))
    return made

"""The Live tab: what the last run says about the selected block."""

from dataclasses import asdict
from typing import ClassVar

import param

from k3scope.app.examples import examples
from k3scope.app.model_cards import badge
from k3scope.app.models import title
from k3scope.app.page.inspector import live_charts as readout
from k3scope.app.page.kit.component import Component
from k3scope.app.page.kit.static import scripts, styles
from k3scope.app.runs.run_session import RunSession
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec

EMPTY = (
    "Nothing has run yet. After a run this tab shows what the selected block computed: statistics of its "
    "outputs at a layer of your choice and, where the block has them, routing, depth weights or memory times."
)


class Live(Component):
    """Draws one readout; asks to choose a layer, to draw the model that ran, or to run an example."""

    readout = param.Dict({}, doc="what there is to show; see `live`")

    _esm = scripts("dom", "live")
    _stylesheets: ClassVar = [styles("live")]


def live(session: RunSession) -> Live:
    """The Live tab of a visitor, made anew when something it shows changes and it is in view."""
    state, chosen = session.state, {"layer": None}

    def told(data: dict) -> None:
        match data:
            case {"type": "layer", "layer": int(layer)} if (
                session.result and state.model == session.result.spec.model
            ):
                state.layer = layer
            case {"type": "layer", "layer": int(layer)}:
                chosen["layer"] = layer
                show()
            case {"type": "draw"} if session.result:
                state.param.update(model=session.result.spec.model, layer=shown.readout.get("layer"))
            case {"type": "example"}:
                session.start(session.model, examples()[0].prompt)

    def show(*_) -> None:
        if state.tab == "live":
            shown.readout = _readout(session, chosen["layer"])

    def forget(*_) -> None:
        chosen["layer"] = None

    shown = Live(told)
    state.follow("live.chosen_layer", forget)
    state.follow("live", show)
    session.follow("live", show)
    show()
    return shown


def _readout(session: RunSession, chosen: int | None) -> dict:
    state, run = session.state, session.result
    if run is None:
        return {"empty": EMPTY, "example": examples()[0].name}
    drawn, ran = Facts.of(state.model).config, run.spec.model
    same_model = state.model == ran
    like = None if state.layer is None or state.layer >= drawn.layers else (drawn, state.layer)
    try:
        at = readout.place(run, state.select, chosen, like)
    except ValueError:  # an instance is looked for and there is none
        return _absent(run, f"{title(ran)} has no such block.")
    if not at.points:
        return _absent(run, "This block did not run: the prompt was text alone.")
    bad = run.readings.first_bad
    return {
        "source": _source(run, at),
        "badge": badge(ran),
        "note": "" if same_model else _note(state, run, at, like),
        "draw": "" if same_model else title(ran),
        "layer": at.layer,
        "layers": at.layers if len(at.layers) > 1 else [],
        "charts": [asdict(chart) for chart in readout.charts(run, at, state.token)],
        "tables": readout.statistics(run, at),
        "bad": f"NaN or infinity first appeared in {bad}." if bad else "",
    }


def _absent(run, why: str) -> dict:
    return {
        "source": title(run.spec.model),
        "badge": {},
        "note": why,
        "layers": [],
        "charts": [],
        "tables": [],
    }


def _source(run, at: readout.Place) -> str:
    where = "" if at.layer is None else f", layer {at.layer} ({readout.kind_of(run.config, at.layer)})"
    return f"{title(run.spec.model)}{where}"


def _note(state, run, at: readout.Place, like) -> str:
    """Whose numbers these are, when another model is drawn."""
    drawn, ran = title(state.model), title(run.spec.model)
    if like is None or at.layer is None:
        return f"{drawn} has no weights here: these are the values of the same block in {ran}."
    kind = readout.kind_of(*like)
    if readout.kind_of(run.config, at.layer) == kind:
        return f"Same kind as the chosen layer {state.layer} of {drawn} ({kind})."
    here = block_spec.blocks()[state.select].title if state.select else "this"
    return f"The chosen layer {state.layer} of {drawn} is {kind}; {here} is shown where {ran} has it."

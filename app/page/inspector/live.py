"""The Live tab: what the last run measured of the selected block."""

from dataclasses import asdict
from typing import ClassVar

import param

from k3scope.app.examples import examples
from k3scope.app.link.state import State
from k3scope.app.model_cards import badge
from k3scope.app.models import title
from k3scope.app.page.inspector import live_charts
from k3scope.app.page.inspector.live_charts import BlockReading
from k3scope.app.page.kit.component import Component
from k3scope.app.page.kit.static import scripts, styles
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_session import RunSession
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec
from k3scope.model.config import Config
from k3scope.model.measure.not_finite import sentence

EMPTY = (
    "Nothing has run yet. After a run this tab shows what the selected block computed: statistics of its "
    "outputs at a layer of your choice and, where the block has them, routing, depth weights or memory times."
)


class Live(Component):
    """Draws one readout; asks to choose a layer, to draw the model that ran, or to run an example."""

    readout = param.Dict({}, doc="what there is to show: see `_readout`")

    _esm = scripts("dom", "live")
    _stylesheets: ClassVar = [styles("live")]


def live(session: RunSession) -> Live:
    """The Live tab of a visitor, made anew when something it shows changes and it is in view."""
    state, chosen = session.state, {"layer": None}  # of the Live tab alone, where another model is drawn

    def on_message(data: dict) -> None:
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

    def reset_layer(*_) -> None:
        chosen["layer"] = None

    shown = Live(on_message)
    state.follow("live.chosen_layer", reset_layer)
    state.follow("live", show)
    session.follow("live", show)
    show()
    return shown


def _readout(session: RunSession, chosen: int | None) -> dict:
    """Texts, charts and tables of the selected block, or why there are none. `drawable`: a model to draw."""
    state, run = session.state, session.result
    if run is None:
        return {"empty": EMPTY, "example": examples()[0].name}
    drawn, ran = Facts.of(state.model).config, run.spec.model
    same_model = state.model == ran
    like = None if state.layer is None or state.layer >= drawn.layers else (drawn, state.layer)
    try:
        reading = live_charts.locate(run, state.select, chosen, like)
    except ValueError:  # the model that ran has no instance of it
        return _absent(run, f"{title(ran)} has no such block.")
    if not reading.points:
        return _absent(run, "This block did not run: the prompt was text alone.")
    first_bad = run.readings.first_bad
    return {
        "source": _source(run, reading),
        "badge": badge(ran),
        "note": "" if same_model else _note(state, run, reading, like),
        "drawable": "" if same_model else title(ran),
        "layer": reading.layer,
        "layers": reading.layers if len(reading.layers) > 1 else [],
        "charts": [asdict(chart) for chart in live_charts.charts(run, reading, state.token)],
        "tables": live_charts.statistics(run, reading),
        "problem": sentence(first_bad) if first_bad else "",
    }


def _absent(run: RunResult, why: str) -> dict:
    return {
        "source": title(run.spec.model),
        "badge": {},
        "note": why,
        "layers": [],
        "charts": [],
        "tables": [],
    }


def _source(run: RunResult, reading: BlockReading) -> str:
    layer = reading.layer
    where = "" if layer is None else f", layer {layer} ({live_charts.kind_of(run.config, layer)})"
    return f"{title(run.spec.model)}{where}"


def _note(state: State, run: RunResult, reading: BlockReading, like: tuple[Config, int] | None) -> str:
    """Whose numbers these are, when another model is drawn."""
    drawn, ran = title(state.model), title(run.spec.model)
    if like is None or reading.layer is None:
        return f"{drawn} has no weights here: these are the values of the same block in {ran}."
    kind = live_charts.kind_of(*like)
    if live_charts.kind_of(run.config, reading.layer) == kind:
        return f"Same kind as the chosen layer {state.layer} of {drawn} ({kind})."
    block = block_spec.blocks()[state.select].title if state.select else "this"
    return f"The chosen layer {state.layer} of {drawn} is {kind}; {block} is shown where {ran} has it."

"""The Cost view: what a step of a hybrid model costs, at a point that the visitor sets."""

from dataclasses import replace
from functools import lru_cache

import param

from k3scope.app.link import cost_point
from k3scope.app.link.cost_point import CostPoint
from k3scope.app.link.state import State
from k3scope.app.models import title
from k3scope.app.page.kit.events import OrderedComponent, dispatch
from k3scope.app.page.kit.static import scripts
from k3scope.app.page.kit.templates import render
from k3scope.app.page.kit.text_cache import text_cache
from k3scope.app.page.sheets.curves import CONTEXTS, Curve, CurveMark, chart
from k3scope.diagrams.cost import roofline
from k3scope.diagrams.cost.breakdown import cost_parts, operations, readings, seconds
from k3scope.diagrams.cost.roofline import Cost, Point
from k3scope.diagrams.facts.block_facts import Facts

MAX_POINT = 200  # characters of what the controls send


class CostView(OrderedComponent):
    """Fills the Cost view in page.html and takes its controls to the state.

    The browser sends `{point}`, as the link writes it.
    """

    results = param.String(doc="readings, curves and parts as HTML")
    point = param.String(cost_point.DEFAULT, doc="what the controls show, as the link writes it")
    problem = param.String(doc="a sentence on what was typed, '' when it can be read")

    _esm = scripts("cost")

    def __init__(self, state: State, **params):
        super().__init__(width=0, height=0, margin=0, **params)
        self._state = state
        state.follow("cost", self.show)
        self.show()

    @property
    def controls(self) -> str:
        return render(
            "cost_controls.html",
            point=cost_point.split(self._state.cost_point),
            choices=choices(),
            limits=cost_point.LIMITS,
        )

    def show(self, *_) -> None:
        """Compute only when the view is open."""
        if self._state.view == "cost":
            self.results = results(self._state.model, self._state.cost_point)
        self.point = self._state.cost_point

    def _handle_msg(self, data) -> None:
        point = data.get("point") if isinstance(data, dict) else None
        if isinstance(point, str):
            dispatch(lambda: self._set_point(point))

    def _set_point(self, text: str) -> None:
        try:
            cost_point.parse(text[:MAX_POINT])
        except ValueError as error:
            self.problem = f"{error}."
            return
        self.problem = ""
        self._state.cost_point = text


def choices() -> dict[str, list[tuple[str, str]]]:
    """What each control offers: its value in the link, and its text on the page."""
    texts = {name: [(value, value) for value in values] for name, values in cost_point.CHOICES.items()}
    return texts | {"device": [(key, device.name) for key, device in cost_point.DEVICE_BY_NAME.items()]}


@text_cache(megabytes=16)
def results(model: str, text: str) -> str:
    """Everything below the controls."""
    facts, chosen = Facts.of(model), cost_point.parse(text)
    point = chosen.point
    costs = _costs(model, replace(point, context=CONTEXTS[0]))
    parts = cost_parts(facts, point)
    return render(
        "cost.html",
        title=title(model),
        readings=readings(facts, point, chosen.device, chosen.count),
        parts=parts,
        maxima=(max(p.flops for p in parts), max(p.weight_bytes for p in parts)),
        flops=sum(p.flops for p in parts),
        bytes=sum(p.weight_bytes for p in parts),
        operations=operations,
        charts=[_cache_chart(facts, chosen), _time_chart(costs, chosen)],
        explanations=[_explain(facts, chosen, n, cost) for n, cost in zip(CONTEXTS, costs, strict=True)],
        contexts=CONTEXTS,
        point=point,
        device=chosen.device,
        positions=facts.config.max_positions,
    )


@lru_cache(maxsize=64)
def _costs(model: str, point: Point) -> list[Cost]:
    """The cost at every context of the charts: the same wherever on them the visitor is."""
    return roofline.curve(Facts.of(model), point, CONTEXTS)


def _cache_chart(facts: Facts, chosen: CostPoint) -> tuple[str, str]:
    """Heading and chart of what the sequences keep in memory."""
    c, point = facts.config, chosen.point
    token, state = roofline.latent_bytes_per_token(c), roofline.state_bytes(c, point.conv_state)
    both = [
        Curve("KV cache", "attention", [point.batch * token * n for n in CONTEXTS]),
        Curve("KDA state", "norm", [point.batch * state] * len(CONTEXTS)),
    ]
    curves = [curve for curve in both if any(curve.values)]
    heading = "Memory of the sequences"
    title = f"{heading}: {' and '.join(curve.title for curve in curves)} over the context"
    marks: tuple[CurveMark, ...] = ()
    if equal := roofline.crossover(c, point.conv_state):
        marks = (CurveMark(state / token, point.batch * state, f"equal at {equal:,} tokens"),)
        title += f", {marks[0].text}"
    return heading, chart(title, curves, point.context, _bytes, marks)


def _time_chart(costs: list[Cost], chosen: CostPoint) -> tuple[str, str]:
    """Heading and chart of the seconds that reading and computing take."""
    device, count = chosen.device, chosen.count
    bandwidth, peak = device.bytes_per_second * count, device.flops_bf16 * count
    curves = [
        Curve("reading weights", "ffn", [c.weight_bytes / bandwidth for c in costs]),
        Curve("reading caches", "attention", [c.cache_bytes / bandwidth for c in costs]),
        Curve("computing", "embed", [c.flops / peak for c in costs]),
    ]
    heading = "Time of the step"
    return heading, chart(
        f"{heading} over the context: {', '.join(curve.title for curve in curves)}",
        curves,
        chosen.point.context,
        seconds,
    )


def _bytes(value: float) -> str:
    """A power of ten on the axis: 100 kB, 10 GB."""
    for unit, of in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if value >= of:
            return f"{value / of:g} {unit}"
    return f"{value:g} B"


def _explain(facts: Facts, chosen: CostPoint, context: int, cost: Cost) -> tuple[str, str]:
    """How the values of the two charts come about at one context."""
    c, p, device = facts.config, chosen.point, chosen.device
    token, state = roofline.latent_bytes_per_token(c), roofline.state_bytes(c, p.conv_state)
    caches = (
        f"{p.batch:,} × {context:,} × {token:,} B = {p.batch * context * token:,} B of KV cache; "
        f"{p.batch:,} × {state:,} B = {p.batch * state:,} B of state"
    )
    speed, peak = chosen.count * device.bytes_per_second, chosen.count * device.flops_bf16
    times = (
        f"weights {cost.weight_bytes:.4g} B ÷ {speed:.3g} B/s = {seconds(cost.weight_bytes / speed)}; "
        f"caches {cost.cache_bytes:.4g} B = {seconds(cost.cache_bytes / speed)}; "
        f"{cost.flops:.4g} FLOPs ÷ {peak:.4g}/s = {seconds(cost.flops / peak)}"
    )
    return caches, times

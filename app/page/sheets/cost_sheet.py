"""The Cost view: what a step takes of a hybrid model, at a point that the visitor sets."""

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
from k3scope.app.page.sheets.curves import CONTEXTS, Line, Mark, chart
from k3scope.diagrams.cost import roofline
from k3scope.diagrams.cost.breakdown import cost_parts, operations, readings, seconds
from k3scope.diagrams.cost.roofline import Cost, Point
from k3scope.diagrams.facts.block_facts import Facts


class CostView(OrderedComponent):
    """Fills the places of the Cost view in page.html and brings its controls back to the state."""

    results = param.String(doc="readings, curves and parts as HTML")
    at = param.String(cost_point.DEFAULT, doc="what the controls show")
    wrong = param.String(doc="what is wrong with what was typed")

    _esm = scripts("cost")

    def __init__(self, state: State, **more):
        super().__init__(width=0, height=0, margin=0, **more)
        self._state = state
        state.follow("cost", self.show)
        self.show()

    @property
    def controls(self) -> str:
        return render(
            "cost_controls.html",
            at=cost_point.split(self._state.cost_point),
            choices=choices(),
            limits=cost_point.LIMITS,
        )

    def show(self, *_) -> None:
        """Compute only what is looked at."""
        if self._state.view == "cost":
            self.results = results(self._state.model, self._state.cost_point)
        self.at = self._state.cost_point

    def _handle_msg(self, data) -> None:
        wanted = data.get("at") if isinstance(data, dict) else None
        if isinstance(wanted, str):
            dispatch(lambda: self._go(wanted))

    def _go(self, wanted: str) -> None:
        try:
            cost_point.parse(wanted[:200])
        except ValueError as error:
            self.wrong = f"{error}."
            return
        self.wrong = ""
        self._state.cost_point = wanted


def choices() -> dict[str, list[tuple[str, str]]]:
    """What a control offers: its word in the link and on the page."""
    found = {name: [(word, word) for word in words] for name, words in cost_point.CHOICES.items()}
    return found | {"device": [(word, device.name) for word, device in cost_point.DEVICE_BY_NAME.items()]}


@lru_cache(maxsize=256)
def results(model: str, text: str) -> str:
    """Everything below the controls."""
    facts, asked = Facts.of(model), cost_point.parse(text)
    point = asked.point
    found = _curve(model, replace(point, context=CONTEXTS[0]))
    parts = cost_parts(facts, point)
    return render(
        "cost.html",
        title=title(model),
        readings=readings(facts, point, asked.device, asked.count),
        parts=parts,
        most=(max(p.flops for p in parts), max(p.weight_bytes for p in parts)),
        flops=sum(p.flops for p in parts),
        bytes=sum(p.weight_bytes for p in parts),
        operations=operations,
        curves=[_caches(facts, asked), _times(found, asked)],
        points=[_words(facts, asked, n, one) for n, one in zip(CONTEXTS, found, strict=True)],
        contexts=CONTEXTS,
        point=point,
        device=asked.device,
        positions=facts.config.max_positions,
    )


@lru_cache(maxsize=64)
def _curve(model: str, point: Point) -> list[Cost]:
    """The cost at every context of the pictures: the same wherever on them the visitor is."""
    return roofline.curve(Facts.of(model), point, CONTEXTS)


def _caches(facts: Facts, asked: CostPoint) -> tuple[str, str]:
    c, point = facts.config, asked.point
    token, state = roofline.latent_bytes_per_token(c), roofline.state_bytes(c, point.conv_state)
    cross = state / token
    lines = [
        Line("KV cache", "attention", [point.batch * token * n for n in CONTEXTS]),
        Line("KDA state", "norm", [point.batch * state] * len(CONTEXTS)),
    ]
    words = f"equal at {roofline.crossover(c, point.conv_state):,} tokens"
    mark = Mark(cross, point.batch * state, words)
    heading = "Memory of the sequences"
    return heading, chart(
        f"{heading}: KV cache and KDA state over the context, {words}", lines, point.context, _bytes, (mark,)
    )


def _times(found: list[Cost], asked: CostPoint) -> tuple[str, str]:
    device, count = asked.device, asked.count
    bandwidth, peak = device.bytes_per_second * count, device.flops_bf16 * count
    lines = [
        Line("reading weights", "ffn", [c.weight_bytes / bandwidth for c in found]),
        Line("reading caches", "attention", [c.cache_bytes / bandwidth for c in found]),
        Line("computing", "embed", [c.flops / peak for c in found]),
    ]
    heading = "Time of the step"
    return heading, chart(
        f"{heading} over the context: {', '.join(line.title for line in lines)}",
        lines,
        asked.point.context,
        seconds,
    )


def _bytes(value: float) -> str:
    """A power of ten on the axis: 100 kB, 10 GB."""
    for unit, of in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if value >= of:
            return f"{value / of:g} {unit}"
    return f"{value:g} B"


def _words(facts: Facts, asked: CostPoint, context: int, found: Cost) -> tuple[str, str]:
    """What the two pictures say at one context."""
    c, p, device = facts.config, asked.point, asked.device
    token, state = roofline.latent_bytes_per_token(c), roofline.state_bytes(c, p.conv_state)
    caches = (
        f"{p.batch:,} × {context:,} × {token:,} B = {p.batch * context * token:,} B of KV cache; "
        f"{p.batch:,} × {state:,} B = {p.batch * state:,} B of state"
    )
    memory, peak = asked.count * device.bytes_per_second, asked.count * device.flops_bf16
    times = (
        f"weights {found.weight_bytes:.4g} B ÷ {memory:.3g} B/s = {seconds(found.weight_bytes / memory)}; "
        f"caches {found.cache_bytes:.4g} B = {seconds(found.cache_bytes / memory)}; "
        f"{found.flops:.4g} FLOPs ÷ {peak:.4g}/s = {seconds(found.flops / peak)}"
    )
    return caches, times

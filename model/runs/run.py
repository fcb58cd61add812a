"""The result of a forward pass that shows itself: `run.routing.load(3)`, `run.kda.half_life(0)`, ..."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

from torch import Tensor

from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure import run_plots
from k3scope.model.measure.attention_view import AttentionView
from k3scope.model.measure.depth_view import DepthView
from k3scope.model.measure.kda_view import KdaView
from k3scope.model.measure.logit_lens_view import LogitLensView
from k3scope.model.measure.not_finite import number, sentence
from k3scope.model.measure.observe import VIEWS
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.readings import Readings, readings
from k3scope.model.measure.routing_view import RoutingView
from k3scope.model.measure.run_difference import RunDifference, difference
from k3scope.model.measure.run_plots import PlotSelection
from k3scope.model.measure.run_view import MeasuredTrace, RunView
from k3scope.model.measure.statistics import Statistics
from k3scope.model.tokenizers.tokenizer import Tokenizer
from k3scope.model.tracing import Trace
from k3scope.model.tracing import trace as plain_trace


@dataclass(eq=False, repr=False)
class Run(MeasuredTrace):
    """A forward pass that shows itself: `routing`, `kda`, `attention`, `depth`, `logit_lens`."""

    # of every hook point, when the trace has not recorded them all
    points: dict[str, Statistics] | None = None
    tokenizer: Tokenizer | None = None  # of the other rows of a batch

    def row(self, row: int) -> "Run":
        """One sequence of the batch, counted from 0, without its padding. ValueError when there is none."""
        made = super().row(row)
        batch = self.ids.shape[0]
        name = self.name if batch == 1 else f"{self.name}, row {row} of 0 to {batch - 1}"
        return replace(made, name=name, token_texts=token_texts(self.tokenizer, made.ids), points=None)

    @cached_property
    def shown(self) -> "Run":
        """What the views show: the run itself, or the first row of a batch; `row` gives the others."""
        return self.row(0) if self.padded else self

    @cached_property
    def routing(self) -> RoutingView:
        return RoutingView(self.shown)

    @cached_property
    def kda(self) -> KdaView:
        return KdaView(self.shown)

    @cached_property
    def attention(self) -> AttentionView:
        return AttentionView(self.shown)

    @cached_property
    def depth(self) -> DepthView:
        return DepthView(self.shown)

    @cached_property
    def logit_lens(self) -> LogitLensView:
        return LogitLensView(self.shown)

    @property
    def lens(self) -> LogitLensView:
        """The same as `logit_lens`, under the name of the view in links and on the command line."""
        return self.logit_lens

    @cached_property
    def readings(self) -> Readings:
        """Everything small at once."""
        return readings(self, points=self.points)

    def view(self, name: str) -> RunView:
        """A view by name. ValueError lists those there are."""
        if name not in VIEWS:
            raise ValueError(f"there is no view {name!r}; expected {', '.join(VIEWS)}")
        return getattr(self, name)

    def picture(
        self,
        view: str,
        layer: int | None = None,
        head: int | None = None,
        plot: str = "",
        token: int | None = None,
        row: int | None = None,
    ) -> Picture:
        """The picture of a view, or one of its further `plots`; of a batch that of one `row`, else the first.

        ValueError for what it does not have.
        """
        if row is not None or self.padded:
            return self.row(row or 0).picture(view, layer, head, plot, token)
        shown = self.view(view)
        if plot:
            return self.captioned(run_plots.plot(self, view, plot, PlotSelection(layer, head, token)))
        if token is not None:
            raise ValueError(f"the picture of {view} shows every token: there is none to choose")
        return self.captioned(shown.picture(layer, head))

    def difference_from(self, other: Trace) -> RunDifference:
        """What is different in another run, where both have the same tokens."""
        return difference(self, other)

    def __repr__(self) -> str:
        if self.padded:
            return f"{self.shown!r} (of {self.ids.shape[0]} rows; run.row(n) gives another)"
        loss = self.logit_lens.tokens.mean_loss
        text = "".join(self.token_texts[:40]) + ("…" if len(self.token_texts) > 40 else "")
        # of a trace of everything it takes a look at every tensor, which a healthy one is spared
        look = self.points is not None or not math.isfinite(loss)
        bad = f"; {sentence(self.first_bad)}" if look and self.first_bad else ""
        mean = f"mean loss {number(loss, '.4g', 'nats')}" if self.length > 1 else "no token after another"
        return f"{self.source}: {self.length:,} tokens, {text!r}, {mean}{bad}"

    def _repr_html_(self) -> str:
        return self.logit_lens._repr_html_()


def trace(model: KimiK3, ids: Tensor, points=None, edits=None, on_point=None, images=None, real=None) -> Run:
    """`tracing.trace` whose result also shows itself, as far as it recorded `points`."""
    plain = plain_trace(model, ids, points, edits, on_point, images, real=real)
    return Run(**vars(plain), model=model, token_texts=token_texts(None, plain.ids))


def token_texts(tokenizer: Tokenizer | None, ids: Tensor) -> list[str]:
    """Text of each token of the first sequence; its id where there is no tokenizer."""
    first = ids[0].tolist()
    return [str(i) for i in first] if tokenizer is None else [p.text for p in tokenizer.tokens(first)]

"""The attention that each token of text gives to an image: a strip with a row per layer, changed in place."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from bokeh.models import (
    BasicTicker,
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    Range1d,
    Span,
)
from bokeh.plotting import figure

from k3scope.app.page.kit.events import dispatch
from k3scope.app.page.kit.theme import colours, paint
from k3scope.app.page.lab.image_tiles import (
    above,
    empty_source,
    image_data,
    not_finite_last,
    plain_title,
    value_formatter,
)
from k3scope.model.measure.colours import NAN, ramp

TITLE = "Share of its attention that a token of text gives to the image"


@dataclass
class AttentionStrip:
    """Shares by layer and token, and lines at the chosen ones."""

    plot: figure
    source: ColumnDataSource
    mapper: LinearColorMapper
    bar: ColorBar
    lines: tuple[Span, Span]  # at the layer, at the token

    def show(self, shares: dict[int, np.ndarray], tokens: np.ndarray) -> None:
        """`shares`: layer -> a number for each of `tokens`, in their order."""
        first, across = int(tokens[0]), int(tokens[-1] - tokens[0]) + 1
        # rows of a later image are no text: a gap, below all values
        image = np.full((len(shares), across), -np.inf, dtype=np.float32)
        image[:, tokens - first] = not_finite_last(np.stack(list(shares.values())))
        layers = np.repeat(np.array(list(shares), dtype=np.uint16)[:, None], across, 1)
        self.plot.x_range.update(start=first - 0.5, end=first + across - 0.5)
        self.plot.y_range.update(start=len(shares) - 0.5, end=-0.5)
        self.plot.height = 98 + 20 * len(shares)
        self.plot.yaxis.ticker = FixedTicker(ticks=list(range(len(shares))))
        self.plot.yaxis.major_label_overrides = {n: f"MLA {layer}" for n, layer in enumerate(shares)}
        self.source.data = image_data(image, image.shape, first) | {"layer": [layers]}
        finite = image[np.isfinite(image)]
        self.mapper.update(low=0, high=above(float(finite.max(initial=0)) or 1.0))
        self.bar.visible = bool(finite.size)

    def mark(self, row: int, token: int | None) -> None:
        across, down = self.lines
        across.location = row
        down.update(location=token or 0, visible=token is not None)

    def colour(self, dark: bool) -> None:
        paint(self.plot, dark)
        self.mapper.update(palette=ramp("share", dark), high_color=NAN[dark])
        for line in self.lines:
            line.line_color = colours(dark)["fg"]


def attention_strip(on_tap: Callable) -> AttentionStrip:
    """An empty strip; `on_tap` gets the events of clicks."""
    plot, source = _figure(), empty_source()
    mapper = LinearColorMapper(low=0, high=1, low_color="rgba(0,0,0,0)")
    image = plot.image("image", "x", "y", "dw", "dh", source=source, color_mapper=mapper)
    tips = [("layer", "@layer"), ("token", "$x{0}"), ("share on the image", "@image{custom}")]
    plot.add_tools(
        HoverTool(renderers=[image], tooltips=tips, formatters={"@image": value_formatter("no text")})
    )
    bar = ColorBar(color_mapper=mapper, width=8, padding=4, ticker=BasicTicker(desired_num_ticks=3))
    plot.add_layout(bar, "right")
    lines = tuple(
        Span(dimension=d, location=0, line_width=1, line_dash="dashed") for d in ("width", "height")
    )
    for line in lines:
        plot.add_layout(line)
    plot.on_event("tap", lambda event: dispatch(lambda: on_tap(event)))
    return AttentionStrip(plot, source, mapper, bar, lines)


def _figure() -> figure:
    plot = figure(
        title=TITLE,
        height=120,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        x_range=Range1d(0, 1),
        y_range=Range1d(1, 0),
        x_axis_label="token",
        min_border_right=8,
    )
    plain_title(plot)
    plot.grid.visible = False
    plot.axis.major_tick_in = 0
    plot.xaxis.ticker = BasicTicker(min_interval=1)
    return plot

"""Heat maps of a run as Bokeh figures: built once, updated through their data."""

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

from app.theme import colours, paint
from model.config import Config

LABELLED = 32  # rows or columns up to which every one has its label
RAMPS = {False: ("#f1f5fa", "#7fb0ea", "#0b3a86"), True: ("#1b232e", "#2f74c0", "#d6e8ff")}


@dataclass
class Heat:
    """A figure with one image, its colour scale, and lines at the chosen row and column."""

    plot: figure
    source: ColumnDataSource
    mapper: LinearColorMapper
    column: Span
    row: Span

    def show(self, image: np.ndarray, rows: list[str], columns: list[str], first: tuple[int, int] = (0, 0)):
        """Draw `image` [rows, columns], row 0 on top; `first`: numbers of the first row and column."""
        (down, across), (top, left) = image.shape, first
        finite = image[np.isfinite(image)]
        self.mapper.update(low=0, high=float(finite.max()) if finite.size and finite.max() > 0 else 1)
        for range_, start, end in (
            (self.plot.x_range, left - 0.5, left + across - 0.5),
            (self.plot.y_range, top + down - 0.5, top - 0.5),
        ):
            range_.update(start=start, end=end, reset_start=start, reset_end=end)
        _label(self.plot.yaxis[0], rows, top)
        _label(self.plot.xaxis[0], columns, left)
        wide = len(columns) > 8 and any(len(text) > 1 for text in columns)
        self.plot.xaxis[0].major_label_orientation = "vertical" if wide else "horizontal"
        self.plot.height = max(150, min(560, 70 + (17 if down <= 40 else 5) * down))
        self.source.data = {
            "image": [image],
            "x": [left - 0.5],
            "y": [top - 0.5],
            "dw": [across],
            "dh": [down],
        }

    def mark(self, row: int | None = None, column: int | None = None) -> None:
        """Point at a row and a column, or at none."""
        for line, at in ((self.row, row), (self.column, column)):
            line.update(location=at or 0, visible=at is not None)

    def colour(self, dark: bool) -> None:
        """Take the colours of the page's theme."""
        paint(self.plot, dark)
        self.mapper.palette = ramp(dark)
        for line in (self.column, self.row):
            line.line_color = colours(dark)["fg"]


def heat(across: str, value: str, form: str) -> Heat:
    """An empty heat map. `across` names the columns; rows are layers unless labelled otherwise."""
    plot = figure(
        height=240,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,wheel_zoom,reset,save",
        active_drag=None,
        toolbar_location="below",
        x_range=Range1d(0, 1),
        y_range=Range1d(1, 0),
        x_axis_label=across,
        min_border_right=8,
    )
    plot.toolbar.update(logo=None, autohide=True)
    plot.grid.visible = False
    mapper = LinearColorMapper(low=0, high=1, nan_color="rgba(0,0,0,0)")
    source = ColumnDataSource({"image": [], "x": [], "y": [], "dw": [], "dh": []})
    image = plot.image("image", "x", "y", "dw", "dh", source=source, color_mapper=mapper)
    plot.add_layout(
        ColorBar(color_mapper=mapper, width=8, padding=4, ticker=BasicTicker(desired_num_ticks=4)), "right"
    )
    # cells are centred on whole numbers, so rounding the position names the cell
    tips = [("layer", "$y{0}"), (across, "$x{0}"), (value, f"@image{{{form}}}")]
    plot.add_tools(HoverTool(renderers=[image], tooltips=tips))
    lines = [
        Span(dimension=d, location=0, visible=False, line_width=1, line_dash="dashed")
        for d in ("height", "width")
    ]
    for line in lines:
        plot.add_layout(line)
    plot.axis.major_tick_in = 0
    return Heat(plot, source, mapper, *lines)


def layer_labels(config: Config, layers) -> list[str]:
    """Layers with their kind, as an axis shows them."""
    return [f"{config.kinds[i].upper()}{' dense' if i < config.dense_layers else ''} {i}" for i in layers]


def ramp(dark: bool) -> list[str]:
    """256 colours from almost the background to the strongest of one hue."""
    stops = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in RAMPS[dark]])
    at = np.linspace(0, len(stops) - 1, 256)
    mixed = [np.interp(at, range(len(stops)), channel) for channel in stops.T]
    return ["#%02x%02x%02x" % tuple(round(v) for v in colour) for colour in zip(*mixed, strict=True)]  # noqa: UP031


def _label(axis, labels: list[str], first: int) -> None:
    """Every label where there is room for all, else every so manieth; numbers without labels."""
    few = 0 < len(labels) <= LABELLED
    axis.ticker = (
        FixedTicker(ticks=list(range(first, first + len(labels)))) if few else BasicTicker(min_interval=1)
    )
    # BokehJS keeps the labels of before that are not replaced: those become numbers again
    before = {i: str(i) for i in axis.major_label_overrides}
    axis.major_label_overrides = before | {first + i: text for i, text in enumerate(labels)}

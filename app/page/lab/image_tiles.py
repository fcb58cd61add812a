"""Small figures that stand in a row: one image each, cells centred on whole numbers, row 0 on top."""

from dataclasses import dataclass

import numpy as np
import panel as pn
from bokeh.models import (
    BasicTicker,
    BoxAnnotation,
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    Range1d,
    Span,
)
from bokeh.plotting import figure

from k3scope.app.page.kit.theme import colours, paint
from k3scope.model.measure.colours import ramp

SIDE, LEAST = 216, 12  # pixels of the longer side of an image, and of the shorter at least
TITLE, SCALE = 24, 30  # pixels above and below an image
GRID = "#7d7d7d"  # over any picture, so neither light nor dark
LINES = 64  # patches on a side beyond which their borders are not drawn


@dataclass
class Tile:
    """One small image with its colours."""

    view: pn.Column
    plot: figure
    source: ColumnDataSource
    mapper: LinearColorMapper
    meaning: str

    def show(self, image: np.ndarray) -> None:
        _fit(self.view, self.plot, image.shape)
        self.source.data = _placed(image.astype(np.float32), image.shape)
        low, high = float(image.min()), float(image.max())
        self.mapper.update(low=low, high=high if high > low else low + 1)

    def colour(self, dark: bool) -> None:
        paint(self.plot, dark)
        self.mapper.palette = ramp(self.meaning, dark)


@dataclass
class PixelTile:
    """The pixels of an image under the borders of its patches, padding hatched."""

    view: pn.Column
    plot: figure
    source: ColumnDataSource
    right: BoxAnnotation
    below: BoxAnnotation

    def show(
        self, pixels: np.ndarray, patches: tuple[int, int], merge: int, inside: tuple[float, float]
    ) -> None:
        """`patches` down and across; `inside`: how much of them is the picture."""
        (down, across), (height, width) = patches, inside
        _fit(self.view, self.plot, patches)
        opaque = np.full((*pixels.shape[:2], 4), 255, dtype=np.uint8)
        opaque[..., :3] = pixels
        self.source.data = _placed(opaque.view(np.uint32)[..., 0], patches)
        self.right.update(left=width - 0.5, right=across - 0.5, top=-0.5, bottom=down - 0.5)
        self.below.update(left=-0.5, right=width - 0.5, top=height - 0.5, bottom=down - 0.5)
        self.right.visible, self.below.visible = width < across, height < down
        for grid, cells in ((self.plot.xgrid[0], across), (self.plot.ygrid[0], down)):
            borders = [n - 0.5 for n in range(cells + 1)] if cells <= LINES else []
            grid.ticker = FixedTicker(ticks=borders[::merge], minor_ticks=borders)

    def colour(self, dark: bool) -> None:
        paint(self.plot, dark)
        for grid in self.plot.grid:
            grid.update(level="overlay", grid_line_color=GRID, minor_grid_line_color=GRID)
            grid.update(grid_line_width=1.5, minor_grid_line_alpha=0.6)
        for box in (self.right, self.below):
            box.hatch_color = colours(dark)["muted"]


@dataclass
class Strip:
    """Numbers by layer and token: a row per layer."""

    plot: figure
    source: ColumnDataSource
    mapper: LinearColorMapper
    lines: tuple[Span, Span]  # at the layer, at the token

    def show(self, shares: dict[int, np.ndarray], tokens: np.ndarray) -> None:
        """`shares`: layer -> a number for each of `tokens`, in their order."""
        first, across = int(tokens[0]), int(tokens[-1] - tokens[0]) + 1
        image = np.full((len(shares), across), np.nan, dtype=np.float32)
        image[:, tokens - first] = np.stack(list(shares.values()))
        layers = np.repeat(np.array(list(shares), dtype=np.uint16)[:, None], across, 1)
        self.plot.x_range.update(start=first - 0.5, end=first + across - 0.5)
        self.plot.y_range.update(start=len(shares) - 0.5, end=-0.5)
        self.plot.height = 98 + 20 * len(shares)
        self.plot.yaxis.ticker = FixedTicker(ticks=list(range(len(shares))))
        self.plot.yaxis.major_label_overrides = {n: f"MLA {layer}" for n, layer in enumerate(shares)}
        self.source.data = _placed(image, image.shape, first) | {"layer": [layers]}
        self.mapper.update(low=0, high=float(np.nanmax(image)) or 1)

    def mark(self, row: int, token: int | None) -> None:
        across, down = self.lines
        across.location = row
        down.update(location=token or 0, visible=token is not None)

    def colour(self, dark: bool) -> None:
        paint(self.plot, dark)
        self.mapper.palette = ramp("share", dark)
        for line in self.lines:
            line.line_color = colours(dark)["fg"]


def tile(title: str, meaning: str, cell: str) -> Tile:
    """An empty image whose cells are called `cell`; its colours run from the lowest value to the highest."""
    plot, source = _figure(title), _source()
    mapper = LinearColorMapper(low=0, high=1)
    image = plot.image("image", "x", "y", "dw", "dh", source=source, color_mapper=mapper)
    tips = [(cell, "$y{0} down, $x{0} across"), (title, "@image{0.0000}")]
    plot.add_tools(HoverTool(renderers=[image], tooltips=tips))
    bar = ColorBar(color_mapper=mapper, height=6, padding=4, ticker=BasicTicker(desired_num_ticks=3))
    plot.add_layout(bar, "below")
    return Tile(_view(plot), plot, source, mapper, meaning)


def pixel_tile(title: str) -> PixelTile:
    plot, source = _figure(title), _source()
    image = plot.image_rgba("image", "x", "y", "dw", "dh", source=source)
    tips = [("patch", "$y{0} down, $x{0} across")]
    plot.add_tools(HoverTool(renderers=[image], tooltips=tips))
    boxes = [
        BoxAnnotation(fill_alpha=0, line_alpha=0, hatch_pattern="right_diagonal_line", hatch_scale=6)
        for _ in range(2)
    ]
    for box in boxes:
        plot.add_layout(box)
    return PixelTile(_view(plot), plot, source, *boxes)


def strip(tapped) -> Strip:
    """An empty strip; `tapped` hears clicks."""
    plot = figure(
        title="Share of its attention that a token of text gives to the image",
        height=120,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        x_range=Range1d(0, 1),
        y_range=Range1d(1, 0),
        x_axis_label="token",
        min_border_right=8,
    )
    _quiet(plot)
    plot.grid.visible = False
    plot.axis.major_tick_in = 0
    plot.xaxis.ticker = BasicTicker(min_interval=1)
    mapper = LinearColorMapper(low=0, high=1, nan_color="rgba(0,0,0,0)")
    source = _source()
    image = plot.image("image", "x", "y", "dw", "dh", source=source, color_mapper=mapper)
    tips = [("layer", "@layer"), ("token", "$x{0}"), ("share on the image", "@image{0.0000}")]
    plot.add_tools(HoverTool(renderers=[image], tooltips=tips))
    plot.add_layout(
        ColorBar(color_mapper=mapper, width=8, padding=4, ticker=BasicTicker(desired_num_ticks=3)), "right"
    )
    lines = tuple(
        Span(dimension=d, location=0, line_width=1, line_dash="dashed") for d in ("width", "height")
    )
    for line in lines:
        plot.add_layout(line)
    plot.on_event("tap", tapped)
    return Strip(plot, source, mapper, lines)


def _figure(title: str) -> figure:
    plot = figure(
        title=title,
        sizing_mode="stretch_width",
        tools="",
        toolbar_location=None,
        x_range=Range1d(0, 1),
        y_range=Range1d(1, 0),
        min_border=0,
    )
    _quiet(plot)
    plot.axis.visible = False
    return plot


def _quiet(plot: figure) -> None:
    plot.title.text_font_size, plot.title.text_font_style = "12px", "normal"


def _view(plot: figure) -> pn.Column:
    return pn.Column(pn.pane.Bokeh(plot, sizing_mode="stretch_width", margin=0), width=SIDE, margin=0)


def _fit(view: pn.Column, plot: figure, cells: tuple[int, int]) -> None:
    """Show all cells [down, across], square."""
    down, across = cells
    pixels = SIDE / max(cells)
    width, height = (max(LEAST, round(n * pixels)) for n in (across, down))
    view.width = width  # a figure of fixed width is not laid out when it comes into a page that is there
    plot.height = height + TITLE + (SCALE if plot.below[1:] else 0)
    plot.x_range.update(start=-0.5, end=across - 0.5)
    plot.y_range.update(start=down - 0.5, end=-0.5)


def _source() -> ColumnDataSource:
    return ColumnDataSource({"image": [], "x": [], "y": [], "dw": [], "dh": []})


def _placed(image: np.ndarray, cells: tuple[int, int], left: int = 0) -> dict:
    down, across = cells
    return {"image": [image], "x": [left - 0.5], "y": [-0.5], "dw": [across], "dh": [down]}

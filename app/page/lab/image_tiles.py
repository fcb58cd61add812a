"""Small figures that stand in a row: one image each, cells centred on whole numbers, row 0 on top."""

from dataclasses import dataclass

import numpy as np
import panel as pn
from bokeh.models import (
    BasicTicker,
    BoxAnnotation,
    ColorBar,
    ColumnDataSource,
    CustomJSHover,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    Range1d,
)
from bokeh.plotting import figure

from k3scope.app.page.kit.theme import colours, paint
from k3scope.model.measure.colours import NAN, ramp

SIDE, MIN_SIDE = 216, 12  # pixels of the longer side of an image, and of the shorter at least
TITLE_HEIGHT, SCALE_HEIGHT = 24, 30  # pixels above and below an image
GRID = "#7d7d7d"  # over any picture, so neither light nor dark
MAX_BORDERS = 64  # patches on a side beyond which their borders are not drawn


@dataclass
class Tile:
    """One small image with its colours."""

    view: pn.Column
    plot: figure
    source: ColumnDataSource
    mapper: LinearColorMapper
    bar: ColorBar
    meaning: str

    def show(self, image: np.ndarray) -> None:
        """`image`: [down, across]; its lowest value has the first colour, its highest the last.

        What is not finite has a colour of its own.
        """
        _fit(self.view, self.plot, image.shape)
        self.source.data = image_data(not_finite_last(image), image.shape)
        finite = image[np.isfinite(image)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        self.mapper.update(low=low, high=above(high if high > low else low + 1))
        self.bar.visible = bool(finite.size)

    def colour(self, dark: bool) -> None:
        paint(self.plot, dark)
        self.mapper.update(palette=ramp(self.meaning, dark), high_color=NAN[dark])


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
        # Bokeh's image_rgba takes 32-bit pixels: R, G, B and A as bytes in this order
        opaque = np.full((*pixels.shape[:2], 4), 255, dtype=np.uint8)
        opaque[..., :3] = pixels
        self.source.data = image_data(opaque.view(np.uint32)[..., 0], patches)
        self.right.update(left=width - 0.5, right=across - 0.5, top=-0.5, bottom=down - 0.5)
        self.below.update(left=-0.5, right=width - 0.5, top=height - 0.5, bottom=down - 0.5)
        self.right.visible, self.below.visible = width < across, height < down
        for grid, cells in ((self.plot.xgrid[0], across), (self.plot.ygrid[0], down)):
            borders = [n - 0.5 for n in range(cells + 1)] if cells <= MAX_BORDERS else []
            grid.ticker = FixedTicker(ticks=borders[::merge], minor_ticks=borders)

    def colour(self, dark: bool) -> None:
        paint(self.plot, dark)
        for grid in self.plot.grid:
            grid.update(level="overlay", grid_line_color=GRID, minor_grid_line_color=GRID)
            grid.update(grid_line_width=1.5, minor_grid_line_alpha=0.6)
        for box in (self.right, self.below):
            box.hatch_color = colours(dark)["muted"]


def tile(title: str, meaning: str, cell: str) -> Tile:
    """An empty image whose cells are called `cell`; its colours run from the lowest value to the highest."""
    plot, source = _figure(title), empty_source()
    mapper = LinearColorMapper(low=0, high=1)
    image = plot.image("image", "x", "y", "dw", "dh", source=source, color_mapper=mapper)
    tips = [(cell, "$y{0} down, $x{0} across"), (title, "@image{custom}")]
    plot.add_tools(HoverTool(renderers=[image], tooltips=tips, formatters={"@image": value_formatter()}))
    bar = ColorBar(color_mapper=mapper, height=6, padding=4, ticker=BasicTicker(desired_num_ticks=3))
    plot.add_layout(bar, "below")
    return Tile(_view(plot), plot, source, mapper, bar, meaning)


def pixel_tile(title: str) -> PixelTile:
    """An empty image of pixels, under two boxes that hatch the padding right of it and below."""
    plot, source = _figure(title), empty_source()
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
    plain_title(plot)
    plot.axis.visible = False
    return plot


def plain_title(plot: figure) -> None:
    """A title no louder than the text around the figure."""
    plot.title.text_font_size, plot.title.text_font_style = "12px", "normal"


def _view(plot: figure) -> pn.Column:
    return pn.Column(pn.pane.Bokeh(plot, sizing_mode="stretch_width", margin=0), width=SIDE, margin=0)


def _fit(view: pn.Column, plot: figure, cells: tuple[int, int]) -> None:
    """Show all cells [down, across], square."""
    down, across = cells
    pixels = SIDE / max(cells)
    width, height = (max(MIN_SIDE, round(n * pixels)) for n in (across, down))
    view.width = width  # a figure of fixed width is not laid out when it comes into a page that is there
    plot.height = height + TITLE_HEIGHT + (SCALE_HEIGHT if plot.below[1:] else 0)
    plot.x_range.update(start=-0.5, end=across - 0.5)
    plot.y_range.update(start=down - 0.5, end=-0.5)


def empty_source() -> ColumnDataSource:
    return ColumnDataSource({"image": [], "x": [], "y": [], "dw": [], "dh": []})


def value_formatter(below: str = "") -> CustomJSHover:
    """What the pointer says of a value: four digits, that it is none, or `below` where there is nothing."""
    return CustomJSHover(
        code=f'return value === Infinity ? "not finite" : value === -Infinity ? "{below}" : value.toFixed(4)'
    )


def not_finite_last(image: np.ndarray) -> np.ndarray:
    """The values as they travel, float32: what is not finite lies above all others."""
    return np.where(np.isfinite(image), image, np.inf).astype(np.float32)


def above(high: float) -> float:
    """The end of a scale, so that float32 rounds no value past it."""
    return high + 1e-6 * abs(high)


def image_data(image: np.ndarray, cells: tuple[int, int], left: int = 0) -> dict:
    """Columns of a source: an image over `cells` [down, across], the first column centred on `left`."""
    down, across = cells
    return {"image": [image], "x": [left - 0.5], "y": [-0.5], "dw": [across], "dh": [down]}

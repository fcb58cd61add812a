"""The heat map of the Lab: one Bokeh figure that shows any picture, changed in place."""

import math
from collections.abc import Callable

import numpy as np
from bokeh.core.properties import value
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    NoOverlap,
    Range1d,
    Span,
)
from bokeh.plotting import figure

from k3scope.app.page.kit.events import dispatch
from k3scope.app.page.kit.theme import FONT, colours, paint
from k3scope.app.page.lab import hover, linked_cursor
from k3scope.model.measure.colours import NAN, ramp
from k3scope.model.measure.picture import Picture, label

LABELLED = 64  # rows or columns up to which every one has its label, if there is room
TRANSPARENT = "rgba(0,0,0,0)"
SIDE = 380  # pixels of a square map
NO_SIGNS = np.zeros((1, 1), dtype=np.int8)
_TICK = "return String(Number((scale.tags[0] ? Math.exp(tick) : tick).toPrecision(3)))"


class Heatmap:
    """A figure with one image, its colour scale, and lines at the chosen row and column."""

    def __init__(self, on_tap: Callable[[int, int], None]):
        self.picture: Picture | None = None
        self._dark = False
        self.plot = _figure()
        self.source = ColumnDataSource(_image_data(np.full((1, 1), np.nan, np.float32), (0, 0), (1, 1)))
        self.mapper = LinearColorMapper(palette=ramp("amount"), low=0, high=1, nan_color=TRANSPARENT)
        self._image = self.plot.image(
            "image", "x", "y", "dw", "dh", source=self.source, color_mapper=self.mapper
        )
        self._bar = ColorBar(color_mapper=self.mapper, width=8, padding=4, ticker=FixedTicker(ticks=[0, 1]))
        self._bar.formatter = CustomJSTickFormatter(args={"scale": self.source}, code=_TICK)
        self.plot.add_layout(self._bar, "right")
        self._marks = self.plot.text("x", "y", "text", source={"x": [], "y": [], "text": []})
        self._marks.glyph.update(
            text_font=value(FONT), text_font_size="11px", text_align="right", x_offset=-3, text_baseline="top"
        )
        self.row_names, self.column_names = (
            ColumnDataSource({"text": [], "id": []}, tags=[0, 1, ""]) for _ in range(2)
        )
        self._tiles = ColumnDataSource(tags=[1, 1, 1])
        self._hover = HoverTool(renderers=[self._image], tooltips=[])
        self._hover.formatters = hover.formatters(self.source, self.row_names, self.column_names, self._tiles)
        self.plot.add_tools(self._hover)
        self.column, self.row = (_line(dimension) for dimension in ("height", "width"))
        self.bands = linked_cursor.bands()  # at what the pointer is over, in this plot or in another
        for mark in (self.column, self.row, *self.bands):
            self.plot.add_layout(mark)
        self.plot.on_event("tap", lambda at: dispatch(lambda: on_tap(round(at.y), round(at.x))))

    def show(self, picture: Picture) -> None:
        """Draw a picture, row 0 on top; cells are centred on their numbers."""
        self.picture = picture
        top, bottom, left, right = picture.numbers
        self.source.tags = [picture.log, picture.empty]
        self._scale(picture)
        for range_, start, end in (
            (self.plot.x_range, left, right + 1),
            (self.plot.y_range, bottom + 1, top),
        ):
            range_.update(start=start - 0.5, end=end - 0.5, reset_start=start - 0.5, reset_end=end - 0.5)
        rows, columns = self._set_names(picture)
        for axis, names, (first, last), word in (
            (self.plot.yaxis[0], rows, (top, bottom), picture.down),
            (self.plot.xaxis[0], columns, (left, right), picture.across),
        ):
            axis.axis_label, axis.visible = word, not picture.marks
            _label(axis, names if len(names) == last - first + 1 else [], first, last)
        self.plot.xaxis[0].major_label_orientation = (
            "vertical" if any(len(text) > 2 for text in columns[:LABELLED]) else "horizontal"
        )
        self.plot.height = _height(picture)
        self._hover.tooltips = hover.tooltips(picture)
        if picture.tiles:
            self._tiles.tags = [picture.tiles.across, picture.tiles.count, picture.tiles.side + 1]
        self._marks.data_source.data = {
            "x": [column - 0.5 for _, column, _ in picture.marks],
            "y": [row - 0.5 for row, _, _ in picture.marks],
            "text": [text for *_, text in picture.marks],
        }
        counts = (bottom - top + 1, right - left + 1)
        self.source.data = _image_data(_encode(picture), (top, left), counts, _signs(picture))

    def mark(self, row: int | None = None, column: int | None = None) -> None:
        """Point at a row and a column by number, or at none."""
        for line, number in ((self.row, row), (self.column, column)):
            line.update(location=number or 0, visible=number is not None)

    def colour(self, dark: bool) -> None:
        """Take the colours of the page's theme."""
        self._dark = dark
        paint(self.plot, dark)
        foreground = colours(dark)["fg"]
        self.plot.outline_line_color = None  # it is drawn where the frame was before the height changed
        self._marks.glyph.text_color = foreground
        for line in (self.column, self.row):
            line.line_color = foreground
        linked_cursor.paint(self.bands, dark)
        if self.picture is not None:
            self._scale(self.picture)

    def _scale(self, picture: Picture) -> None:
        """Colours and ticks of the scale; a logarithmic one counts in logarithms, as the values do."""
        low, high = picture.range
        ends = (math.log(low), math.log(high)) if picture.log else (low, high)
        palette = ramp(picture.meaning, self._dark)
        # values travel as float32: the largest must not round past the end, where "no number" begins
        top = ends[1] + 1e-7 * max(ends[1] - ends[0], abs(ends[1]))
        self.mapper.update(palette=palette, low=ends[0], high=top, high_color=NAN[self._dark])
        self._bar.ticker.ticks = np.linspace(*ends, 5).tolist()
        self._bar.visible = picture.has_scale

    def _set_names(self, picture: Picture) -> tuple[list[str], list[str]]:
        """Names of the rows and of the columns: given to the pointer, returned for the axes.

        The pointer finds a name by the tags of its source: where the first cell starts, how many tokens (say)
        a pooled cell covers, and what the axis counts.
        """
        (down, across), ends = picture.image.shape, picture.numbers
        rows = [label(picture.rows, i, ends[:2], down, ends[0]) for i in range(down)]
        columns = [label(picture.columns, i, ends[2:], across, ends[2]) for i in range(across)]
        if picture.tiles:
            names = [*picture.tiles.names, ""]  # and the empty line between two maps
            rows, columns = ([names[i % len(names)] for i in range(n)] for n in (down, across))
        rows, columns = _visible(rows, picture.down), _visible(columns, picture.across)
        for names, word, source, first, last in (
            (rows, picture.down, self.row_names, *ends[:2]),
            (columns, picture.across, self.column_names, *ends[2:]),
        ):
            kind = linked_cursor.kind_of(word)
            exact = kind == "token" and len(names) == last - first + 1
            source.tags = [first - 0.5, (last - first + 1) / max(len(names), 1), kind]
            text = [f"{first + i}  {n}" if exact else n for i, n in enumerate(names)]
            source.data = {"text": text, "id": linked_cursor.ids(kind, names)}
        return rows, columns


def _figure() -> figure:
    plot = figure(
        height=240,
        sizing_mode="stretch_width",
        tools="pan,box_zoom,wheel_zoom,reset",
        active_drag=None,
        toolbar_location="below",
        x_range=Range1d(0, 1),
        y_range=Range1d(1, 0),
        min_border_right=8,
    )
    plot.toolbar.update(logo=None, autohide=True)
    plot.grid.visible = False
    plot.axis.major_tick_in = 0
    for axis in plot.axis:
        axis.ticker = FixedTicker(ticks=[])
    plot.axis.major_label_policy = NoOverlap(min_distance=4)
    return plot


def _line(dimension: str) -> Span:
    return Span(dimension=dimension, location=0, visible=False, line_width=1, line_dash="dashed")


def _encode(picture: Picture) -> np.ndarray:
    """The cells as they travel: absent ones as NaN, what is not finite as infinity, logarithms if log.

    The colour mapper leaves NaN transparent and gives what lies above its range a colour of its own.
    """
    if np.issubdtype(picture.image.dtype, np.integer) and not picture.log:
        return picture.image
    image = picture.image
    if picture.log:
        with np.errstate(divide="ignore", invalid="ignore"):
            image = np.log(image.astype(np.float64))  # of 0 it is the least there is
    image = np.where(np.isfinite(picture.image), image, np.inf)
    return (image if picture.absent is None else np.where(picture.absent, np.nan, image)).astype(np.float32)


def _signs(picture: Picture) -> np.ndarray:
    """Sign of each infinite cell, 0 elsewhere; empty for a picture without any."""
    infinite = np.isinf(picture.image)
    return np.where(infinite, np.sign(picture.image), 0).astype(np.int8) if infinite.any() else NO_SIGNS


def _image_data(
    image: np.ndarray, first: tuple[int, int], counts: tuple[int, int], signs: np.ndarray = NO_SIGNS
) -> dict:
    """Columns of the source: an image whose first cell is centred on the numbers (row, column) `first`."""
    (top, left), (down, across) = first, counts
    place = {"x": [left - 0.5], "y": [top - 0.5], "dw": [across], "dh": [down]}
    return {"image": [image], "signs": [signs], **place}


def _visible(names: list[str], word: str) -> list[str]:
    """Names as they are read: the spaces of tokens get a sign."""
    return [name.replace(" ", "␣") for name in names] if word == "token" else names


def _height(picture: Picture) -> int:
    """Pixels: square maps are square, others give each row room for its label while there are few."""
    down, across = picture.image.shape
    if picture.marks or (down == across and down > 12):
        return SIDE
    return max(130, min(460, 78 + (18 if down <= 24 else 12 if down <= 36 else 5) * down))


def _step(count: int) -> int:
    """Distance of the numbers on an axis: at most 14 are shown."""
    return next(s for s in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if count / s <= 14)


def _label(axis, labels: list[str], first: int, last: int) -> None:
    """Every label where there may be room for all, else numbers."""
    fit = 0 < len(labels) <= LABELLED
    ticks = list(range(first, last + 1))
    # a ticker is changed and never replaced: a model that is new may reach the browser after its first use
    axis.ticker.ticks = ticks if fit else ticks[:: _step(len(ticks))]
    # BokehJS keeps the labels of before that are not replaced: those become numbers again
    before = {i: str(i) for i in axis.major_label_overrides}
    axis.major_label_overrides = before | (dict(zip(ticks, labels, strict=True)) if fit else {})

"""A heat map as data: what the page, the SVG writer, a CSV file and a notebook all draw."""

import base64
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from k3scope.model.measure import colours
from k3scope.model.measure.not_finite import of_many

SAME = "No difference anywhere."  # the note of a picture that has nothing to show
LOG_FLOOR = 1e-4  # lowest colour of a logarithmic scale, in parts of the highest value


@dataclass(frozen=True)
class Tiles:
    """Where the maps of a mosaic stand: map n from row n // across * (side + 1) on, and columns alike."""

    across: int  # maps side by side
    count: int
    side: int  # cells, and an empty line after them
    names: Sequence[str]  # of the cells of each map, down and across: tokens
    what: str = "head"  # what there is a map of
    down: str = "row, reads"
    along: str = "column, is read"

    def name(self, cell: int, line: str) -> str:
        """A row or a column of the whole mosaic: "heads in rows 2, token 5"; empty between two maps."""
        map_, inside = divmod(cell, self.side + 1)
        return "" if inside == self.side else f"{self.what}s in {line} {map_}, {self.names[inside]}"


@dataclass(frozen=True, eq=False)
class Picture:
    """Values in rows and columns, with everything a reader needs to read them.

    `span`: numbers of the first and last row, and of the first and last column, both ends included; a binned
    map has fewer cells than numbers. Labels are by number, from the first on. `absent`: where there is
    nothing to measure; NaN elsewhere was measured. `marks`: text at a cell, in place of numbered axes.
    `tiles`: of a mosaic.
    """

    title: str
    image: np.ndarray  # [rows, columns]
    down: str
    across: str
    value: str  # what a cell holds, with its unit
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    span: tuple[int, int, int, int] | None = None
    meaning: str = "amount"  # its colour map
    log: bool = False
    absent: np.ndarray | None = None
    marks: Sequence[tuple[int, int, str]] = ()  # row, column, text
    source: str = ""  # the model, and whether its weights are random
    note: str = ""  # how it was computed
    empty: str = "not read"  # what an absent cell is
    tiles: Tiles | None = None

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        """`span`, or the indices of the cells when there is none."""
        return self.span or (0, self.image.shape[0] - 1, 0, self.image.shape[1] - 1)

    @property
    def measured(self) -> np.ndarray:
        """The values that are there, as one row; NaN among them."""
        return self.image.ravel() if self.absent is None else self.image[~self.absent]

    @property
    def bad_count(self) -> int:
        """How many values were measured and are not finite."""
        return int((~np.isfinite(self.measured)).sum())

    @property
    def has_scale(self) -> bool:
        """Whether there is a number for colours to stand for."""
        return bool(np.isfinite(self.measured).any())

    @property
    def caption(self) -> str:
        """The note, and how many values are no numbers."""
        return f"{self.note} {of_many(self.bad_count, self.measured.size, 'values')}".strip()

    @property
    def range(self) -> tuple[float, float]:
        """Values at both ends of the colour map: from 0; symmetric when signed; four decades when log.

        Only those that are finite count.
        """
        values = self.measured[np.isfinite(self.measured)]
        if not values.size and not self.log:
            return 0.0, 1.0
        if self.log:
            positive = values[values > 0]
            if not positive.size:
                return 1.0, 10.0
            top = float(positive.max())
            return max(float(positive.min()), top * LOG_FLOOR), top
        if self.meaning == "signed":
            top = float(np.abs(values).max()) or 1.0
            return -top, top
        return 0.0, float(values.max()) if values.max() > 0 else 1.0

    def shaded(self, dark: bool = False) -> np.ndarray:
        """Colours of the cells [rows, columns, 4]."""
        return colours.shade(self.image, self.range, self.meaning, dark, self.absent, self.log)

    def png(self, dark: bool = False) -> bytes:
        """The cells alone, one pixel each."""
        return colours.png(self.shaded(dark))

    def csv(self) -> str:
        """A table with the labels as header; absent cells are empty, NaN is nan, infinity inf."""
        top, _, left, _ = self.numbers
        down, across = self.image.shape
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = self._names(across, self.columns, self.numbers[2:], left, "columns")
        rows = self._names(down, self.rows, self.numbers[:2], top, "rows")
        writer.writerow([f"{self.down} / {self.across}", *names])
        for i, row in enumerate(self.image):
            absent = np.zeros(across, dtype=bool) if self.absent is None else self.absent[i]
            cells = ["" if gone else _number(v) for v, gone in zip(row, absent, strict=True)]
            writer.writerow([rows[i], *cells])
        return out.getvalue()

    def _names(self, count: int, labels: Sequence[str], ends: tuple[int, int], first: int, line: str) -> list:
        """What stands beside the rows or the columns of a table; of a mosaic which line of maps and token."""
        if self.tiles is None:
            return [label(labels, i, ends, count, first) for i in range(count)]
        return [self.tiles.name(i, line) for i in range(count)]

    def select(self, columns: Sequence[int]) -> "Picture":
        """Only some columns, in this order: those of tokens that two prompts have in common, say."""
        if self.image.shape[1] != self.numbers[3] - self.numbers[2] + 1:
            raise ValueError(f"{self.title}: columns are binned, so that single ones cannot be selected")
        at = np.asarray(columns, dtype=np.intp)
        names = [self.columns[i] if i < len(self.columns) else str(i) for i in at]
        absent = None if self.absent is None else self.absent[:, at]
        span = self.span and (*self.span[:2], 0, len(at) - 1)
        return replace(self, image=self.image[:, at], columns=names, absent=absent, span=span)

    def minus(self, other: "Picture") -> "Picture":
        """The difference of two pictures of one kind. ValueError when they do not fit."""
        if self.image.shape != other.image.shape:
            shapes = f"{self.image.shape} and {other.image.shape}"
            raise ValueError(f"{self.title}: pictures of {shapes} cells have no difference")
        with np.errstate(invalid="ignore"):  # infinity less infinity
            change = self.image.astype(np.float64) - other.image
        title, source = f"{self.title}, difference", f"{self.source} minus {other.source}"
        same = (self.image == other.image) & np.isfinite(self.image)
        nothing = same.all() if self.absent is None else same[~self.absent].all()
        note = f"{self.note} {SAME}".strip() if nothing else self.note
        return replace(self, image=change, title=title, source=source, meaning="signed", log=False, note=note)

    def __repr__(self) -> str:
        values = self.measured[np.isfinite(self.measured)]
        size = f"{self.down} × {self.across}, {self.image.shape[0]} × {self.image.shape[1]}"
        span = f"{values.min():.4g} to {values.max():.4g}" if values.size else "no finite value"
        bad = of_many(self.bad_count, self.measured.size, "values")
        return f"{self.title} ({self.source}): {size}, {self.value} {span}" + (f"; {bad}" if bad else "")

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode()
        height = max(120, min(480, 16 * self.image.shape[0]))
        low, high = self.range
        scale = f"{self.value} from {low:.4g} to {high:.4g}" if self.has_scale else f"no {self.value}"
        caption = f"{self.down} down, {self.across} across; {scale}. {self.caption}"
        return (
            f"<figure><figcaption><b>{escape(self.title)}</b> {escape(self.source)}</figcaption>"
            f'<img alt="{escape(repr(self))}" src="data:image/png;base64,{data}" '
            f'style="image-rendering:pixelated;width:100%;max-width:720px;height:{height}px">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )


def label(labels: Sequence[str], cell: int, ends: tuple[int, int], cells: int, first: int) -> str:
    """What stands beside a cell: its label, its number, or the numbers it pools."""
    count = ends[1] - ends[0] + 1
    start, stop = cell * count // cells, (cell + 1) * count // cells
    if stop - start > 1:
        return f"{first + start}-{first + stop - 1}"
    return labels[start] if start < len(labels) else str(first + start)


def _number(value) -> str:
    return str(int(value)) if isinstance(value, np.integer) else f"{float(value):.7g}"

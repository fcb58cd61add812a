"""A heat map as an SVG file: the values as an embedded PNG, everything else as lines and text."""

import base64
import re
from html import escape

import numpy as np

from k3scope.diagrams.drawing.svg import SANS, colours
from k3scope.model.measure.colours import NAN, png, shade
from k3scope.model.measure.picture import Picture

WIDE, HIGH = 760, 520  # of the map, at most
CELL, LINE = 26, 12  # largest cell; least distance of two labels
TEXT, SMALL = 13, 10.5
HEAD, FOOT = 56, 34
GLYPH = 0.62  # width of a character, in parts of its size


def plot_svg(picture: Picture, dark: bool = False) -> str:
    """The whole figure: title, axes, map, colour scale and note."""
    frame = _Frame(picture)
    c = colours(dark)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {frame.width:g} {frame.height:g}" '
        f'width="{frame.width:g}" height="{frame.height:g}" font-family="{SANS}" font-size="{SMALL}">',
        f"<title>{_clean(picture.title)}</title>",
        f'<rect width="100%" height="100%" fill="{c["bg"]}"/>',
        _text(16, 24, picture.title, c["fg"], TEXT + 1, extra=' font-weight="600"'),
        _text(16, 42, picture.source, c["muted"]),
        *_map(picture, frame, c, dark),
        *_rows(picture, frame, c),
        *_columns(picture, frame, c),
        *_scale(picture, frame, c, dark),
        *_note(picture, frame, c),
        "</svg>",
    ]
    return "\n".join(parts)


class _Frame:
    """Where the map stands."""

    def __init__(self, picture: Picture):
        down, across = picture.image.shape
        self.w = min(WIDE, max(CELL * across, 220))
        self.h = min(HIGH, max(CELL * 0.75 * down, 60))
        if picture.marks or picture.down == picture.across:  # both axes count the same: keep the cells square
            self.w = self.h = min(WIDE, HIGH, max(self.w, self.h))
            self.w *= across / max(down, 1) if picture.marks else 1
        labels = [] if picture.marks else _shown(picture.rows, picture.numbers[:2], self.h)
        self.left = 40 + max((_width(text) for _, text in labels), default=0)
        labels = [] if picture.marks else _shown(picture.columns, picture.numbers[2:], self.w)
        self.upright = any(_width(text) > self.w / max(len(labels), 1) - 4 for _, text in labels)
        self.under = max((_width(text) for _, text in labels), default=0) if self.upright else 12
        self.top, self.right = HEAD, self.left + self.w
        self.bottom = self.top + self.h
        self.note = _lines(picture.caption, int((self.w + self.left + 60) / (SMALL * 0.55)))
        self.width = max(self.right + 96, 32 + _width(picture.title, TEXT + 2), 32 + _width(picture.source))
        self.height = self.bottom + self.under + FOOT + 14 * len(self.note)


def _map(picture: Picture, frame: _Frame, c: dict, dark: bool):
    data = base64.b64encode(picture.png(dark)).decode()
    box = f'x="{frame.left:g}" y="{frame.top:g}" width="{frame.w:g}" height="{frame.h:g}"'
    yield (
        f'<image {box} preserveAspectRatio="none" image-rendering="optimizeSpeed" '
        f'style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>'
    )
    yield f'<rect {box} fill="none" stroke="{c["border"]}"/>'
    down, across = picture.image.shape
    halo = f' stroke="{c["bg"]}" stroke-width="3" paint-order="stroke"'
    for row, column, text in picture.marks:
        x, y = frame.left + column / across * frame.w, frame.top + row / down * frame.h
        yield _text(x - 4, y + 13, text, c["fg"], 12, "end", halo)


def _rows(picture: Picture, frame: _Frame, c: dict):
    if not picture.marks:
        first, last = picture.numbers[:2]
        step = frame.h / (last - first + 1)
        for i, text in _shown(picture.rows, picture.numbers[:2], frame.h):
            yield _text(frame.left - 6, frame.top + (i + 0.5) * step + 3.5, text, c["muted"], anchor="end")
    y = frame.top + frame.h / 2
    turned = f' transform="rotate(-90 14 {y:g})"'
    yield _text(14, y, picture.down, c["muted"], anchor="middle", extra=turned)


def _columns(picture: Picture, frame: _Frame, c: dict):
    if not picture.marks:
        first, last = picture.numbers[2:]
        step = frame.w / (last - first + 1)
        for i, text in _shown(picture.columns, picture.numbers[2:], frame.w):
            x, y = frame.left + (i + 0.5) * step, frame.bottom + 14
            if frame.upright:
                turned = f' transform="rotate(-90 {x + 3.5:g} {y - 8:g})"'
                yield _text(x + 3.5, y - 8, text, c["muted"], anchor="end", extra=turned)
            else:
                yield _text(x, y, text, c["muted"], anchor="middle")
    x = frame.left + frame.w / 2
    yield _text(x, frame.bottom + frame.under + 18, picture.across, c["muted"], anchor="middle")


def _scale(picture: Picture, frame: _Frame, c: dict, dark: bool):
    """The colour map with its ends and its middle, if there are numbers; and the colour of what is none."""
    x, h = frame.right + 14, max(50.0, min(frame.h, 160.0))
    yield _text(frame.right + 4, frame.top - 8, picture.value, c["muted"], anchor="end")
    if picture.has_scale:
        yield from _ramp(picture, x, frame.top, h, c, dark)
    if picture.bad_count:
        y = frame.top + (h + 12 if picture.has_scale else 0)
        yield f'<rect x="{x:g}" y="{y:g}" width="10" height="10" fill="{NAN[dark]}"/>'
        yield _text(x + 15, y + 9, _bad_name(picture), c["fg"])


def _bad_name(picture: Picture) -> str:
    """What the values are that are not finite."""
    bad = picture.measured[~np.isfinite(picture.measured)]
    return "not a number" if np.isnan(bad).all() else "not finite" if np.isnan(bad).any() else "infinite"


def _ramp(picture: Picture, x: float, top: float, h: float, c: dict, dark: bool):
    low, high = picture.range
    column = np.linspace(1, 0, 64)[:, None]
    strip = base64.b64encode(png(shade(column, (0, 1), picture.meaning, dark))).decode()
    yield (
        f'<image x="{x:g}" y="{top:g}" width="10" height="{h:g}" preserveAspectRatio="none" '
        f'href="data:image/png;base64,{strip}"/>'
    )
    middle = (low * high) ** 0.5 if picture.log else (low + high) / 2
    for share, number in ((0, high), (0.5, middle), (1, low)):
        yield _text(x + 15, top + share * (h - 8) + 8, f"{number:.3g}", c["muted"])


def _note(picture: Picture, frame: _Frame, c: dict):
    for i, line in enumerate(frame.note):
        yield _text(16, frame.bottom + frame.under + FOOT + 2 + 14 * i, line, c["muted"])


def _shown(labels, ends: tuple[int, int], room: float) -> list[tuple[int, str]]:
    """Labels for which there is room, with their index from the first: all, or every n-th."""
    first, last = ends
    count = last - first + 1
    step = 1
    while count / step * LINE > room:
        step = next(s for s in (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**6) if s > step)
    start = -first % step  # round numbers
    if step > 1 and len(set(labels)) < len(labels):
        labels = ()  # with gaps between them, a text that comes twice does not say which one it is
    names = [(i, labels[i] if i < len(labels) else str(first + i)) for i in range(start, count, step)]
    return [(i, text if len(text) <= 24 else text[:23] + "…") for i, text in names]


def _lines(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [line for line in lines if line]


def _width(text: str, size: float = SMALL) -> float:
    return len(text) * size * GLYPH


def _text(x, y, text, fill, size=SMALL, anchor="start", extra="") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size:g}" text-anchor="{anchor}"{extra}>'
        f"{_clean(text)}</text>"
    )


def _clean(text: str) -> str:
    """Text that XML can hold: no control characters, no halves of surrogate pairs."""
    return escape(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "�", text))

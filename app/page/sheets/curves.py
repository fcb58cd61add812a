"""Curves over the context on two logarithmic axes, as SVG that follows the page's theme."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from k3scope.app.page.kit.templates import render

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 280, 62, 14, 14, 34
CONTEXTS = [2**n for n in range(21)]
TICKS = (1, 16, 256, 4096, 65_536, 1_048_576)
DASHES = ("", "7 4", "2 4")  # by the order of the curves: colour alone does not do for everybody
GAP = 17  # between two labels at the right end
HEADROOM = 0.3  # decades above the highest curve, for its label


@dataclass(frozen=True)
class Curve:
    """One curve; `colour` names a colour of the page, as `theme.colours` has it."""

    title: str
    colour: str
    values: list[float]  # at CONTEXTS; 0 is not drawn


@dataclass(frozen=True)
class CurveMark:
    """A point of a curve with a text beside it."""

    context: float
    value: float
    text: str


def format_context(n: int) -> str:
    """1, 256, 4K, 64K, 1M: powers of two as people write context lengths."""
    for unit, of in (("M", 2**20), ("K", 2**10)):
        if n >= of:
            return f"{n // of}{unit}"
    return str(n)


def chart(
    title: str,
    curves: list[Curve],
    context: int,
    format_value: Callable[[float], str],
    marks: tuple[CurveMark, ...] = (),
) -> Markup:
    """The chart as SVG; `context` is the one that the view is at, `format_value` labels the upright axis."""
    positive = [v for curve in curves for v in curve.values if v > 0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)) + HEADROOM)
    high = max(high, low + 1)

    def x(context: float) -> float:
        return round(LEFT + math.log2(context) / 20 * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)

    step = math.ceil((high - low) / 6)
    drawn = [curve for curve in curves if any(curve.values)]
    ends = _spread([(y(curve.values[-1]) if curve.values[-1] else TOP) for curve in drawn])
    return Markup(
        render(
            "curves.html",
            title=title,
            size=(WIDTH, HEIGHT),
            area=(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM),
            columns=[(x(n), format_context(n)) for n in TICKS],
            rows=[(y(10.0**e), format_value(10.0**e)) for e in range(low, high + 1, step)],
            curves=[
                {
                    "title": curve.title,
                    "colour": curve.colour,
                    "dash": DASHES[curves.index(curve) % len(DASHES)],
                    "points": [(x(n), y(v)) for n, v in zip(CONTEXTS, curve.values, strict=True) if v],
                    "label_y": end - 5,
                }
                for curve, end in zip(drawn, ends, strict=True)
            ],
            marks=[(x(m.context), y(m.value), m.text) for m in marks if m.context <= CONTEXTS[-1]],
            context_x=x(context),
        )
    )


def _spread(heights: list[float]) -> list[float]:
    """The same heights, moved down where two labels would touch."""
    moved = dict.fromkeys(range(len(heights)), 0.0)
    above = -math.inf
    for i in sorted(moved, key=heights.__getitem__):
        above = moved[i] = max(heights[i], above + GAP, TOP + 16)
    return [moved[i] for i in range(len(heights))]

"""Curves over the context on two logarithmic axes, as SVG that follows the page's theme."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from k3scope.app.page.kit.templates import render

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 480, 280, 62, 14, 14, 34
CONTEXTS = [2**n for n in range(21)]
TICKS = (1, 16, 256, 4096, 65_536, 1_048_576)
DASHES = ("", "7 4", "2 4")  # told apart by more than colour
GAP = 17  # between two labels at the right end
HEADROOM = 0.3  # decades above the highest curve, for its label


@dataclass(frozen=True)
class Line:
    """One curve; `colour` names a variable of the page."""

    title: str
    colour: str
    values: list[float]  # at CONTEXTS; 0 is not drawn


@dataclass(frozen=True)
class Mark:
    """A point worth a name."""

    context: float
    value: float
    text: str


def tokens(n: int) -> str:
    """1, 256, 4K, 64K, 1M: powers of two as people write context lengths."""
    for unit, of in (("M", 2**20), ("K", 2**10)):
        if n >= of:
            return f"{n // of}{unit}"
    return str(n)


def chart(
    title: str, lines: list[Line], at: int, unit: Callable[[float], str], marks: tuple[Mark, ...] = ()
) -> Markup:
    """The picture; `at` is the context that the page is at, `unit` writes a value of the upright axis."""
    shown = [v for line in lines for v in line.values if v > 0]
    low, high = math.floor(math.log10(min(shown))), math.ceil(math.log10(max(shown)) + HEADROOM)
    high = max(high, low + 1)

    def x(context: float) -> float:
        return round(LEFT + math.log2(context) / 20 * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP), 1)

    step = math.ceil((high - low) / 6)
    drawn = [line for line in lines if any(line.values)]
    ends = _apart([(y(line.values[-1]) if line.values[-1] else TOP) for line in drawn])
    return Markup(
        render(
            "curves.html",
            title=title,
            size=(WIDTH, HEIGHT),
            area=(LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM),
            columns=[(x(n), tokens(n)) for n in TICKS],
            rows=[(y(10.0**e), unit(10.0**e)) for e in range(low, high + 1, step)],
            lines=[
                {
                    "title": line.title,
                    "colour": line.colour,
                    "dash": DASHES[lines.index(line) % len(DASHES)],
                    "points": [(x(n), y(v)) for n, v in zip(CONTEXTS, line.values, strict=True) if v],
                    "label": end - 5,
                }
                for line, end in zip(drawn, ends, strict=True)
            ],
            marks=[(x(m.context), y(m.value), m.text) for m in marks if m.context <= CONTEXTS[-1]],
            at=x(at),
        )
    )


def _apart(places: list[float]) -> list[float]:
    """The same places, moved down where two labels would touch."""
    moved = dict.fromkeys(range(len(places)), 0.0)
    before = -math.inf
    for i in sorted(moved, key=places.__getitem__):
        before = moved[i] = max(places[i], before + GAP, TOP + 16)
    return [moved[i] for i in range(len(places))]

"""Where the labels of the lines stand: the first position near the start that touches nothing."""

from dataclasses import dataclass
from itertools import pairwise

from k3scope.diagrams.drawing.metrics import LINE_H, label_size

GAP, STEP = 7, 12
Area = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass
class Label:
    """A label to be placed: its text, its shapes, the line it belongs to."""

    text: str
    lines: list[str]
    points: list[tuple[float, float]]
    late: bool = False  # the start of this line already has a label
    level: bool = False  # it belongs to the level stretches of the line, as that of a loop does

    @property
    def size(self) -> tuple[float, float]:
        return label_size(self.text, self.lines)


class OccupiedAreas:
    """What is drawn already, in horizontal bands so that a look-up is short."""

    BAND = 64

    def __init__(self, areas: list[Area]):
        self.bands: dict[int, list[Area]] = {}
        for area in areas:
            self.add(area)

    def add(self, area: Area) -> None:
        for band in range(int(area[1] // self.BAND), int(area[3] // self.BAND) + 1):
            self.bands.setdefault(band, []).append(area)

    def free(self, area: Area) -> bool:
        left, top, right, bottom = area
        bands = range(int(top // self.BAND), int(bottom // self.BAND) + 1)
        return left >= 0 and not any(
            left < r and l < right and top < b and t < bottom
            for band in bands
            for l, t, r, b in self.bands.get(band, ())  # noqa: E741
        )


def place(label: Label, occupied: OccupiedAreas) -> tuple[float, float, str]:
    """x, y of the first baseline, and the text anchor."""
    w, h = label.size
    spots = list(_spots(label, w, h))
    spot = next((s for s in spots if occupied.free(_area(s, w, h))), spots[0])
    occupied.add(_area(spot, w, h))
    x, y, anchor = spot
    return round(x, 1), round(y + LINE_H - 3, 1), anchor


def obstacles(points: list[tuple[float, float]]) -> list[Area]:
    """The stretches of a line with a little air around them."""
    return [
        (min(a[0], b[0]) - 3, min(a[1], b[1]) - 2, max(a[0], b[0]) + 3, max(a[1], b[1]) + 2)
        for a, b in pairwise(points)
    ]


def _area(spot: tuple[float, float, str], w: float, h: float) -> Area:
    x, y, anchor = spot
    left = x if anchor == "start" else x - w
    return left, y, left + w, y + h


def _spots(label: Label, w: float, h: float):
    """Positions beside the line, best first: right of a vertical stretch, left of it, over a level one."""
    pairs = list(pairwise(label.points))
    if label.level:
        pairs = sorted(pairs, key=lambda pair: pair[0][1] != pair[1][1])
    for a, b in reversed(pairs) if label.late and not label.level else pairs:
        if abs(a[0] - b[0]) < 0.5:
            yield from _beside(a, b, h, label.late)
        else:
            yield from _above(a, b, w, h, label.level)


def _beside(a, b, h, late):
    x, top, bottom = a[0], min(a[1], b[1]) + 5, max(a[1], b[1]) - 5 - h
    tops = [top + i * STEP for i in range(int(max(0, bottom - top) // STEP) + 1)]
    for y in tops[::-1] if late or a[1] > b[1] else tops:
        yield x + GAP, y, "start"
        yield x - GAP, y, "end"


def _above(a, b, w, h, level):
    y, left, right = a[1] - h - 3, min(a[0], b[0]) + 8, max(a[0], b[0]) - 8
    forward = level or a[0] < b[0]
    for i in range(int(max(0, right - left - w) // STEP) + 1):
        for top in (y, a[1] + 4):
            yield (left + i * STEP, top, "start") if forward else (right - i * STEP, top, "end")

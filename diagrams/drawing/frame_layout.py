"""Where boxes, lanes and tracks of one frame lie.

A frame is a grid: rows of boxes with a channel above each row and under the last. A segment leaves a box at
the bottom, changes column in a channel on a track of its own, and enters the next box at the top. Segments
that would run through boxes take a lane: beside their column, right of all columns, or left for loops.
"""

import math
from collections import defaultdict

from k3scope.diagrams.drawing.edge_segments import EdgeSegment, Tree
from k3scope.diagrams.drawing.frame import VARIANT_GAP, Box, Frame, arrange, plain_boxes
from k3scope.diagrams.drawing.metrics import badge_width, bold_width, label_size
from k3scope.diagrams.drawing.tracks import enters_aside, stack

COLUMN_GAP, PAD, LANE, FIRST_LANE, LOOP_LANE, PORT = 28, 18, 16, 22, 28, 26


def frame_of(container: str, tree: Tree, segments: dict[str, list[EdgeSegment]], aside: set[str]) -> Frame:
    """Place a container and everything in it, the inner groups first."""
    children = [c for c in tree.children[container] if c not in aside]
    boxes = plain_boxes(children, tree)
    for child in children:
        if child not in boxes:
            inner = frame_of(child, tree, segments, aside)
            boxes[child] = Box(child, inner.w, inner.h, inner)
    frame = Frame(container, {c: boxes[c] for c in children}, segments.get(container, []))
    arrange(frame, tree)
    _choose_modes(frame)
    _label_once(frame)
    _widen(frame)
    _across(frame, tree.node.get(container))
    stack(frame)
    return frame


def _choose_modes(frame: Frame) -> None:
    """Decide how each segment runs; short ones choose first, and no two nets share a stretch of a column."""
    taken: dict[tuple, str] = {(b.column, b.row): "" for b in frame.boxes.values()}
    for segment in sorted(frame.segments, key=lambda p: _length(frame, p)):
        segment.mode, used = _mode(frame, segment, taken)
        taken |= dict.fromkeys(used, segment.net)


def _mode(frame: Frame, segment: EdgeSegment, taken: dict) -> tuple[str, list[tuple]]:
    """ "near" bends right after its start, "far" right before its end; with it the cells it runs through."""
    start, end = frame.span(segment)
    a, b = frame.boxes.get(segment.a), frame.boxes.get(segment.b)
    if segment.loop or end <= start:
        return "loop", []
    plain = not (a and a.frame) and not (b and b.frame)
    if segment.kind == "sum" and b and plain and end - start > 1:
        return "lane", []
    for mode, box in (("near", b), ("far", a)):
        cells = [(box.column, row) for row in range(start + 1, end)] if box else []
        if end - start == 1 or (box and all(taken.get(cell, segment.net) == segment.net for cell in cells)):
            return mode, cells
    cells = [("beside", a.column, row) for row in range(start, end)] if a and b else []
    if cells and plain and a.column == b.column and not any(c in taken for c in cells):
        between = [x for x in frame.boxes.values() if x.column == a.column and start < x.row < end]
        if not any(x.frame for x in between):
            return "bypass", cells
    return "lane", []


def _label_once(frame: Frame) -> None:
    """A trunk that forks has its shape once: on the first segment that leaves at the bottom."""
    labelled = set()
    for segment in sorted(
        frame.segments, key=lambda p: (p.mode in ("lane", "bypass", "loop"), p.kind != "flow")
    ):
        key = (segment.net, tuple(segment.label))
        if key in labelled:
            segment.label = []
        labelled.add(key)


def _widen(frame: Frame) -> None:
    """A box that is also reached by a bypass is wide enough to take it from above."""
    for segment in frame.segments:
        if segment.mode == "bypass":
            start, end = frame.span(segment)
            column = frame.boxes[segment.a].column
            beside = [b for b in frame.boxes.values() if b.column == column and start <= b.row < end]
            segment.end = max(b.w for b in beside) / 2 + LANE
            target = frame.boxes[segment.b]
            target.w = max(target.w, 2 * (segment.end + PORT + LANE / 2))


def _across(frame: Frame, group: dict | None) -> None:
    """Set every x: columns, boxes, ports, lanes, and the width of the frame."""
    axes = _columns(frame)
    for slot in frame.slots:
        x = axes[slot[0].column] - _slot_axis(slot)
        for box in slot:
            box.x = x
            x += box.w + VARIANT_GAP
    _ports(frame)
    right = max((_right_edge(frame, b) for b in frame.boxes.values()), default=0)
    left = min((b.x for b in frame.boxes.values()), default=0)
    right = _lanes(frame, "lane", right + FIRST_LANE - LANE, LANE)
    left = _lanes(frame, "loop", left - LOOP_LANE + LANE, -LANE)
    frame.out_x |= {p.net: p.lane for p in frame.segments if not p.b and p.mode == "lane"}
    _fit_head(frame, left - PAD, right + PAD, group)


def _slot_axis(slot: list[Box]) -> float:
    return slot[0].axis if len(slot) == 1 else (sum(b.w + VARIANT_GAP for b in slot) - VARIANT_GAP) / 2


def _columns(frame: Frame) -> dict[int, float]:
    """The axis of each column: as close to those before it as the rows they share allow."""
    reach = _reaches(frame)
    axes: dict[int, float] = {}
    for column in sorted({c for c, _ in reach}):
        need = [
            axes[before] + reach[before, row][1] + COLUMN_GAP + reach[column, row][0]
            for before in axes
            for row in range(-1, frame.rows + 1)
            if (before, row) in reach and (column, row) in reach
        ]
        axes[column] = round(max(need, default=0))
    return {c: x - axes.get(0, 0) for c, x in axes.items()}


def _reaches(frame: Frame) -> dict[tuple[int, int], tuple[float, float]]:
    """How far each cell (column, row) reaches left and right of its axis: boxes, labels, lines that pass."""
    reach: dict[tuple[int, int], tuple[float, float]] = {}

    def add(column: int, row: int, left: float, right: float) -> None:
        before = reach.get((column, row), (0.0, 0.0))
        reach[column, row] = max(before[0], left), max(before[1], right)

    for slot in frame.slots:
        axis = _slot_axis(slot)
        width = sum(b.w + VARIANT_GAP for b in slot) - VARIANT_GAP
        add(slot[0].column, slot[0].row, axis, width - axis)
        if len(slot) == 1 and not slot[0].frame:
            labels = _label_room(frame, slot[0]) + 6 - COLUMN_GAP
            add(slot[0].column, slot[0].row, axis, labels)
    for segment in frame.segments:
        start, end = frame.span(segment)
        box = frame.boxes.get(segment.b if segment.mode == "near" else segment.a or "")
        if segment.mode in ("near", "far") and box:
            for row in range(start + 1, end):
                add(box.column, row, LANE, LANE)
    return reach


def _label_room(frame: Frame, box: Box) -> float:
    """Width of the labels right of the line under a box."""
    widths = [
        label_size(p.text, p.label)[0] for p in frame.segments if p.a == box.id and p.mode in ("near", "far")
    ]
    return max(widths, default=0) + 10


def _right_edge(frame: Frame, box: Box) -> float:
    return box.x + max(box.w, 0 if box.frame else box.w / 2 + _label_room(frame, box))


def _ports(frame: Frame) -> None:
    """Spread what enters a box over its top: the straight line in the middle, the others beside it."""
    nets = list(dict.fromkeys(p.net for p in frame.segments if not p.a))
    frame.in_x = {net: (i - (len(nets) - 1) / 2) * PORT for i, net in enumerate(nets)}
    arriving = defaultdict(list)
    for segment in frame.segments:
        from_lane = segment.mode == "lane" and not enters_aside(frame, segment)
        if segment.b and not frame.boxes[segment.b].frame and (from_lane or segment.mode in ("near", "far")):
            arriving[segment.b].append(segment)
    for target, segments in arriving.items():
        box = frame.boxes[target]
        offset = {p: _coming_from(frame, p) - (box.x + box.w / 2) for p in segments}
        bypasses = [p.end for p in frame.segments if p.b == target and p.mode == "bypass"]
        _spread(sorted(segments, key=offset.get), offset, box.w / 2 - 14, max(bypasses, default=0))
    frame.out_x = {p.net: frame.start_x(p) for p in frame.segments if not p.b}


def _coming_from(frame: Frame, segment: EdgeSegment) -> float:
    return math.inf if segment.mode == "lane" else frame.start_x(segment)


def _spread(
    segments: list[EdgeSegment], offset: dict[EdgeSegment, float], half: float, bypass: float
) -> None:
    """Set the `end` of each segment, from the left to the right."""
    straight = [p for p in segments if abs(offset[p]) < 1]
    left = [p for p in segments if offset[p] <= -1]
    right = [p for p in segments if offset[p] >= 1]
    if not straight and not bypass:
        for i, segment in enumerate(segments):
            segment.end = (i - (len(segments) - 1) / 2) * min(PORT, 2 * half / len(segments))
        return
    for side, beside in ((-1, left[::-1]), (1, right)):
        step = min(PORT, (half - bypass) / max(1, len(beside)))
        for i, segment in enumerate(beside):
            segment.end = side * (bypass + step * (i + 1))


def _lanes(frame: Frame, mode: str, base: float, step: float) -> float:
    """Give the segments of a mode lanes that do not overlap, short ones inside. Returns the outermost x."""
    taken: list[list[tuple[float, float]]] = []
    for segment in sorted((p for p in frame.segments if p.mode == mode), key=lambda p: _length(frame, p)):
        start, end = sorted(frame.span(segment))
        if mode == "loop":
            start, end = start - 1, end + 1
        lane = 0
        while lane < len(taken) and any(a < end and start < b for a, b in taken[lane]):
            lane += 1
        if lane == len(taken):
            taken.append([])
        taken[lane].append((start, end))
        segment.lane = base + step * (lane + 1)
    return base + step * len(taken) if taken else base - (FIRST_LANE - LANE if step > 0 else LANE - LOOP_LANE)


def _length(frame: Frame, segment: EdgeSegment) -> int:
    start, end = frame.span(segment)
    return abs(end - start)


def _fit_head(frame: Frame, left: float, right: float, group: dict | None) -> None:
    """Move everything right so that the frame starts at 0, and let its title and badge stand clear."""
    if group:
        clear = 14 if frame.in_x else -20
        left = min(left, -(36 + bold_width(group["title"]) + clear))
        right = max(right, badge_width(group["badge"]) + 12 + clear)
    frame.axis, frame.w = -left, right - left
    for box in frame.boxes.values():
        box.x -= left
    for segment in frame.segments:
        segment.lane -= left
    frame.in_x = {net: x - left for net, x in frame.in_x.items()}
    frame.out_x = {net: x - left for net, x in frame.out_x.items()}

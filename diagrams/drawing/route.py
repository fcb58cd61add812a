"""The lines: from the plan of a segment (mode, lane, tracks) to the points of an axis-parallel polyline."""

from collections import defaultdict

from k3scope.diagrams.drawing.edge_segments import EdgeSegment, RoutedEdge
from k3scope.diagrams.drawing.frame import Box, Frame
from k3scope.diagrams.drawing.tracks import enters_aside, leaves_aside

XY = tuple[float, float]
INTO, STORE, OUT_OF = range(3)  # from top to bottom on the right side of a box


def settle(frame: Frame, x: float, y: float) -> list[Frame]:
    """Move a frame and all inside it to its position on the page; returns the frames from the outside in."""
    frame.x, frame.y = frame.x + x, frame.y + y
    for track in {t for p in frame.segments for t in p.tracks if t}:
        track.y += y
    for segment in frame.segments:
        segment.lane += x
    frames = [frame]
    for box in frame.boxes.values():
        box.x, box.y = box.x + x, box.y + y
        if box.frame:
            frames += settle(box.frame, box.x, box.y)
    return frames


def side_heights(
    frames: list[Frame], boxes: dict[str, Box], stores: list[RoutedEdge], aside: set[str]
) -> dict:
    """At which y each line meets the right side of its box: spread evenly, arrivals over departures."""
    uses = defaultdict(list)
    for frame in frames:
        for segment in frame.segments:
            if segment.mode == "bypass" or (segment.mode == "lane" and leaves_aside(frame, segment)):
                uses[segment.a].append((OUT_OF, segment))
            if segment.mode == "lane" and segment.b and enters_aside(frame, segment):
                uses[segment.b].append((INTO, segment))
    for edge in stores:
        uses[edge.target if edge.source in aside else edge.source].append((STORE, edge))
    heights = {}
    for box, ends in uses.items():
        for i, (_, line) in enumerate(sorted(ends, key=lambda end: end[0])):
            heights[box, id(line)] = round(boxes[box].y + boxes[box].h * (i + 1) / (len(ends) + 1), 1)
    return heights


def line(frame: Frame, segment: EdgeSegment, heights: dict) -> list[XY]:
    """The polyline of a segment."""
    a, b = frame.boxes.get(segment.a), frame.boxes.get(segment.b)
    x0, x1 = frame.start_x(segment), frame.end_x(segment)
    y0 = a.bottom if a else frame.y
    y1 = b.y if b else frame.y + frame.h
    ys = [t.y if t else None for t in segment.tracks]
    if segment.mode in ("near", "far"):
        return simple([(x0, y0), (x0, ys[0]), (x1, ys[0]), (x1, y1)]) if ys else [(x0, y0), (x0, y1)]
    if segment.mode == "bypass":
        y = heights[segment.a, id(segment)]
        return simple([(a.right, y), (x1, y), (x1, y1)])
    if ys[0] is None:
        y = heights[segment.a, id(segment)]
        start = [(a.right, y), (segment.lane, y)]
    else:
        start = [(x0, y0), (x0, ys[0]), (segment.lane, ys[0])]
    if b is None:
        return simple([*start, (segment.lane, y1)])
    if ys[1] is None:
        y = heights[segment.b, id(segment)]
        return simple([*start, (segment.lane, y), (b.right, y)])
    return simple([*start, (segment.lane, ys[1]), (x1, ys[1]), (x1, y1)])


def store_lines(box: Box, edges: list[RoutedEdge], boxes: dict[str, Box], heights: dict) -> list[list[XY]]:
    """Lines between a box at the side and what it serves: level where it can be, else with one bend."""
    peers = [boxes[e.target if e.source == box.id else e.source] for e in edges]
    ys = [heights[peer.id, id(edge)] for peer, edge in zip(peers, edges, strict=True)]
    over = sorted((y for y in ys if y < box.y), reverse=True)  # the nearest bends first
    under = sorted(y for y in ys if y > box.bottom)
    lines = []
    for edge, peer, y in zip(edges, peers, ys, strict=True):
        bending = over if y < box.y else under if y > box.bottom else []
        points = [(peer.right, y), (box.x, y)]
        if bending:
            x = box.x + box.w * (bending.index(y) + 1) / (len(bending) + 1)
            points = [(peer.right, y), (x, y), (x, box.y if bending is over else box.bottom)]
        lines.append(points if edge.target == box.id else points[::-1])
    return lines


def simple(points: list[XY]) -> list[XY]:
    """The same line without points that repeat or lie on a straight stretch."""
    out: list[XY] = []
    for point in points:
        if out and abs(out[-1][0] - point[0]) < 0.5 and abs(out[-1][1] - point[1]) < 0.5:
            continue
        if len(out) > 1 and _straight(out[-2], out[-1], point):
            out.pop()
        out.append(point)
    return out


def _straight(a: XY, b: XY, c: XY) -> bool:
    return any(abs(a[i] - b[i]) < 0.5 and abs(b[i] - c[i]) < 0.5 for i in (0, 1))

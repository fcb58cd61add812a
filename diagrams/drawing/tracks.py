"""The vertical side of a frame: tracks in the channels, heights of channels and rows."""

from collections import defaultdict
from dataclasses import dataclass, field

from k3scope.diagrams.drawing.edge_segments import TOP, EdgeSegment
from k3scope.diagrams.drawing.frame import Frame
from k3scope.diagrams.drawing.metrics import label_size

TRACK, ARROW, BARE, BOTTOM = 12, 18, 18, 12
DEPART, ARRIVE, RETURN = range(3)  # tracks of forks lie high, of joins lower, of loops lowest


@dataclass(eq=False)
class Track:
    """A horizontal stretch in a channel, shared by the segments of one net."""

    rank: int
    starts: set[float] = field(default_factory=set)  # where lines come down to it
    ends: set[float] = field(default_factory=set)  # where lines leave it
    y: float = 0

    @property
    def low(self) -> float:
        return min(self.starts | self.ends)

    @property
    def high(self) -> float:
        return max(self.starts | self.ends)


def stack(frame: Frame) -> None:
    """Set every y of a frame and its height."""
    channels: dict[int, dict[tuple, Track]] = defaultdict(dict)
    for segment in frame.segments:
        segment.tracks = _tracks(frame, segment, channels)
    y = frame.head
    for row in range(frame.rows + 1):
        y += _channel(frame, row, list(channels[row].values()), y)
        boxes = [b for b in frame.boxes.values() if b.row == row]
        for box in boxes:
            box.y = y
        y += max((b.h for b in boxes), default=0)
    frame.h = y


def _tracks(frame: Frame, segment: EdgeSegment, channels: dict) -> list[Track | None]:
    """The tracks a segment runs on: where it leaves its column and where it enters the next one."""
    start, end = frame.span(segment)
    x0, x1 = frame.start_x(segment), frame.end_x(segment)

    def track(channel: int, key: tuple, rank: int, start: float, end: float) -> Track:
        shared = channels[channel].setdefault(key, Track(rank))
        shared.starts.add(start)
        shared.ends.add(end)
        return shared

    depart, arrive = (start + 1, (segment.net, DEPART)), (end, (segment.net, segment.b))
    if segment.mode == "loop":
        return [track(*depart, DEPART, x0, segment.lane), track(*arrive, RETURN, segment.lane, x1)]
    if segment.mode == "lane":
        out = None if leaves_aside(frame, segment) else track(*depart, DEPART, x0, segment.lane)
        back = None if enters_aside(frame, segment) else track(*arrive, ARRIVE, segment.lane, x1)
        return [out, back]
    if segment.mode == "bypass" or abs(x0 - x1) < 1:
        return []
    return [track(*depart, DEPART, x0, x1) if segment.mode == "near" else track(*arrive, ARRIVE, x0, x1)]


def leaves_aside(frame: Frame, segment: EdgeSegment) -> bool:
    return _clear_right(frame, segment.a)


def enters_aside(frame: Frame, segment: EdgeSegment) -> bool:
    return segment.b is None or _clear_right(frame, segment.b)


def _clear_right(frame: Frame, box: str | None) -> bool:
    """Whether a line can run from the right side of a box to the lanes."""
    if box is None or frame.boxes[box].frame:
        return False
    own = frame.boxes[box]
    return not any(b.row == own.row and b.x > own.x for b in frame.boxes.values())


def _channel(frame: Frame, row: int, tracks: list[Track], top: float) -> float:
    """Lay the tracks of the channel above a row and return its height."""
    heights = [
        label_size(p.text, p.label)[1]
        for p in frame.segments
        if p.a and frame.boxes[p.a].row == row - 1 and p.mode in ("near", "far") and (p.label or p.text)
    ]
    first, last = row == 0, row == frame.rows
    room = max(heights) + 10 if heights else (4 if first or last else BARE)
    if first and frame.id == TOP:
        room = 0
    levels = _levels(tracks)
    for track, level in levels.items():
        track.y = top + room + TRACK * level + 2
    height = room + TRACK * (max(levels.values(), default=-1) + 1)
    return height + (BOTTOM if last else ARROW if frame.in_x or not first else 0)


def _levels(tracks: list[Track]) -> dict[Track, int]:
    """Which of the parallel tracks each takes: short ones on top, so that joins nest without crossing."""
    level: dict[Track, int] = {}
    waiting = sorted(tracks, key=lambda t: (t.rank, t.high - t.low))
    while waiting:
        ready = (t for t in waiting if not any(_over(u, t) for u in waiting if u is not t))
        track = next(ready, waiting[0])
        waiting.remove(track)
        lowest = max((level[t] + 1 for t in level if _over(t, track)), default=0)
        while any(level[t] == lowest and _touch(t, track) for t in level):
            lowest += 1
        level[track] = lowest
    return level


def _touch(a: Track, b: Track) -> bool:
    return a.low < b.high + 10 and b.low < a.high + 10


def _over(a: Track, b: Track) -> bool:
    """Whether a must lie over b: by its rank, or since a line comes down to a where one leaves b."""
    meet = any(abs(start - end) < 6 for start in a.starts for end in b.ends)
    return meet or (a.rank < b.rank and _touch(a, b))

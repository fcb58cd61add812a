"""Boxes and the frames they stand in: what an open group looks like from inside and from outside."""

from dataclasses import dataclass, field

from k3scope.diagrams.drawing import rows_columns
from k3scope.diagrams.drawing.edge_segments import TOP, EdgeSegment, Tree
from k3scope.diagrams.drawing.metrics import HEAD_H, box_size

VARIANT_GAP = 40


@dataclass(eq=False)
class Box:
    """A box; (x, y) is its top left corner in its frame, and on the page once everything is placed."""

    id: str
    w: float
    h: float
    frame: "Frame | None" = None
    row: int = 0
    column: int = 0
    x: float = 0
    y: float = 0

    @property
    def right(self) -> float:
        return self.x + self.w

    @property
    def bottom(self) -> float:
        return self.y + self.h

    @property
    def axis(self) -> float:
        """Distance from its left side to the line that runs through it."""
        return self.frame.axis if self.frame else self.w / 2

    def out_x(self, net: str) -> float:
        return self.x + (self.frame.out_x[net] if self.frame else self.w / 2)

    def in_x(self, segment: EdgeSegment) -> float:
        return self.x + (self.frame.in_x[segment.port] if self.frame else self.w / 2 + segment.end)


@dataclass(eq=False)
class Frame:
    """The inside of a container: boxes in rows and columns, and the segments between them."""

    id: str
    boxes: dict[str, Box]
    segments: list[EdgeSegment]
    slots: list[list[Box]] = field(default_factory=list)  # boxes side by side that share a column
    rows: int = 0
    axis: float = 0
    x: float = 0
    y: float = 0
    w: float = 0
    h: float = 0
    in_x: dict[str, float] = field(default_factory=dict)
    out_x: dict[str, float] = field(default_factory=dict)

    @property
    def head(self) -> float:
        return HEAD_H if self.id != TOP else 0

    def row_of(self, box: str | None, outside: int) -> int:
        return self.boxes[box].row if box else outside

    def span(self, segment: EdgeSegment) -> tuple[int, int]:
        """Rows a segment starts from and ends at; the ports are one row above and one row below the boxes."""
        return self.row_of(segment.a, -1), self.row_of(segment.b, self.rows)

    def start_x(self, segment: EdgeSegment) -> float:
        return self.boxes[segment.a].out_x(segment.net) if segment.a else self.x + self.in_x[segment.net]

    def end_x(self, segment: EdgeSegment) -> float:
        return self.boxes[segment.b].in_x(segment) if segment.b else self.x + self.out_x[segment.net]


def arrange(frame: Frame, tree: Tree) -> None:
    """Give every box its row and column; variants share both."""
    slot_of: dict[str, str] = {}
    for child in frame.boxes:
        variant = tree.node[child].get("variant")
        slot_of[child] = f"variants of {variant}" if variant else child
    links = [
        (slot_of[p.a], slot_of[p.b]) for p in frame.segments if p.a and p.b and not p.loop
    ]  # fmt: skip
    graph = rows_columns.acyclic(list(dict.fromkeys(slot_of.values())), links)
    fed = {slot_of[p.b] for p in frame.segments if not p.a}
    leaving = {slot_of[p.a] for p in frame.segments if not p.b}
    rank = rows_columns.ranks(graph, fed)
    column = rows_columns.columns(graph, rank, leaving, fed)
    frame.rows = max(rank.values(), default=-1) + 1
    frame.slots = [[b for b in frame.boxes.values() if slot_of[b.id] == slot] for slot in graph]
    for box in frame.boxes.values():
        box.row, box.column = rank[slot_of[box.id]], column[slot_of[box.id]]


def plain_boxes(children: list[str], tree: Tree) -> dict[str, Box]:
    """Boxes that are not open groups, all as wide as the widest, so that columns line up."""
    sizes = {c: box_size(tree.node[c]) for c in children if not tree.is_open(c)}
    width = max((w for w, _ in sizes.values()), default=0)
    return {c: Box(c, width, h) for c, (_, h) in sizes.items()}

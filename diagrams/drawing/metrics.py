"""How much room texts and boxes take: the sizes every part of the drawing agrees on."""

BOX_H, IO_H, HEAD_H = 44, 36, 36
LINE_H = 12  # one line of an edge label
TITLE_PX, SUB_PX, LABEL_PX = 12.5, 11, 10
MIN_W, ROOM = 124, 176  # narrowest box; width a second row may claim before it is cut
FOLD = 32  # characters of a shape before it breaks into two lines

# Widths in em of the widest common system font (DejaVu Sans Bold), so that text never overflows its box.
WIDE = {
    0.35: "ijlI'| ",
    0.42: "f,-./:;()[]r",
    0.52: 'tJ!*_`"',
    0.62: "cksvxyzaeL?FT",
    0.72: "0123456789bdghnopquCEPSYZ$",
    0.84: "ABDGHKNRUVXOQ+<=>^~&w#",
    1.1: "mMW%@",
}
EM = {letter: width for width, letters in WIDE.items() for letter in letters}


def bold_width(text: str, px: float = TITLE_PX) -> float:
    """Width of a title."""
    return sum(EM.get(letter, 0.84) for letter in text) * px


def plain_width(text: str, px: float = SUB_PX) -> float:
    """Width of a regular sans text: about nine tenths of the bold one."""
    return bold_width(text, px) * 0.9


def mono_width(text: str, px: float = LABEL_PX) -> float:
    """Width of a monospace text."""
    return len(text) * px * 0.605


def second_row(node: dict) -> str:
    """What stands under the title: the count of a closed group, else the shape or a text, cut to fit."""
    closed = node["group"] and not node["open"]
    text = (closed and node["badge"]) or node["mono"] or node["sub"] or ""
    width = mono_width if text == node["mono"] else plain_width
    room = max(ROOM, bold_width(node["title"]))
    if width(text, SUB_PX) <= room:
        return text
    while text and width(text + "…", SUB_PX) > room:
        text = text.rpartition(", ")[0] or text[:-1]
    return text.rstrip(" ,") + "…"


def box_size(node: dict) -> tuple[float, float]:
    """Width and height of a box that is not an open group."""
    row = second_row(node)
    row_width = (mono_width if row == node["mono"] else plain_width)(row, SUB_PX)
    toggle = 34 if node["group"] else 0
    width = max(MIN_W, bold_width(node["title"]) + 26 + toggle, row_width + 26 + toggle)
    return even(width), IO_H if node["io"] and not row else BOX_H


def badge_width(text: str) -> float:
    return even(plain_width(text, 10.5) + 18) if text else 0


def label_lines(label: list[str]) -> list[str]:
    """The lines of an edge label; a long shape takes two."""
    return [part for line in label if line for part in _fold(str(line))]


def label_size(text: str, lines: list[str]) -> tuple[float, float]:
    """Width and height of an edge label: its text, then its shapes."""
    widths = [mono_width(line) for line in lines] + ([plain_width(text, 10.5)] if text else [])
    return max(widths, default=0), LINE_H * len(widths)


def even(x: float) -> int:
    """Round up to an even number, so that centres fall on whole pixels."""
    return int(-(-x // 2) * 2)


def _fold(line: str) -> list[str]:
    """A long line in two, broken after a comma or before a plus."""
    if len(line) <= FOLD:
        return [line]
    cuts = [i + 1 for i in range(len(line) - 2) if line[i : i + 2] == ", " or line[i : i + 3] == " + "]
    cut = max((c for c in cuts if c <= FOLD), default=len(line))
    return [part for part in (line[:cut].rstrip(), line[cut:].strip()) if part]

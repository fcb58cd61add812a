"""Text on every ground of the page can be read in both themes (WCAG AA), and so can marks and focus."""

import pytest

from k3scope.app.page.kit.theme import colours

GROUNDS = ("bg", "raised", "tint", "mark", "stage", "hover")
TEXT_COLOURS = {
    "fg": GROUNDS,
    "muted": ("bg", "raised", "tint", "stage"),
    "pick": ("bg", "raised", "tint", "stage"),
    "warn": ("bg", "warn-f"),
    **{f"py-{kind}": ("bg", "raised", "tint") for kind in ("word", "text", "note", "name", "digit")},
}
MARK_COLOURS = {
    "pick": GROUNDS,
    "attention": ("bg",),
    "ffn": ("bg",),
    "norm": ("bg",),
    "embed": ("bg",),
    "aux": ("bg",),
}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def pairs(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(above, ground) for above, grounds in table.items() for ground in grounds]


def test_black_on_white_is_the_largest_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), pairs(TEXT_COLOURS))
def test_words_are_readable(text, ground, dark):
    assert contrast(colours(dark)[text], colours(dark)[ground]) >= 4.5


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("mark", "ground"), pairs(MARK_COLOURS))
def test_marks_and_the_focus_are_seen(mark, ground, dark):
    assert contrast(colours(dark)[mark], colours(dark)[ground]) >= 3

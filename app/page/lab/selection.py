"""What one look at the Lab depends on, and what is made for it: words, pictures, and where lines stand."""

from dataclasses import dataclass

import numpy as np

from k3scope.app.lab.lab_views import At, Choice, Slot, draw, draw_difference
from k3scope.app.lab.picture_difference import Pairs
from k3scope.app.page.kit import templates
from k3scope.app.page.lab import lab_text
from k3scope.app.runs.forward_pass import Run, Whole
from k3scope.model.measure.picture import Picture


@dataclass(frozen=True)
class Sight:
    """All that the open view depends on; equal sights show the same."""

    run: Run
    whole: Whole
    other: Whole | None
    against: str  # how that run is called, empty for none
    view: str
    at: At
    choices: tuple[str, ...]


def picture_of(sight: Sight, slot: Slot, choice: Choice) -> Picture | str:
    try:
        if sight.other is not None:
            return draw_difference(sight.whole, sight.other, slot, choice, sight.at)
        return draw(sight.whole, slot, choice, sight.at)
    except ValueError as error:
        text = str(error)
        return text[:1].upper() + text[1:]


def words(sight: Sight, piece) -> tuple[str, dict]:
    report, problem = [], ""
    try:
        if sight.other is not None:
            report = lab_text.report(sight.whole, sight.other, sight.run.pieces)
    except ValueError as error:
        problem = str(error)
    facts = lab_text.facts(sight.whole, sight.view, sight.at)
    said = templates.render(
        "lab_words.html", facts=facts, report=report, problem=problem, against=sight.against
    )
    expected = lab_text.expected(sight.whole, sight.at.token, piece) if sight.view == "tokens" else {}
    return said, expected


def shared(sight: Sight) -> np.ndarray:
    """Token of the run that each column of a picture is for: all of them, or those that both runs have."""
    if sight.other is None:
        return np.arange(sight.whole.length)
    try:
        return Pairs.of(sight.whole, sight.other).positions[:, 0]
    except ValueError:
        return np.arange(0)


def marks(sight: Sight, picture: Picture) -> tuple[int | None, int | None]:
    """Row and column of a picture at which the chosen token, head or layer is."""
    at, columns = sight.at, np.flatnonzero(shared(sight) == sight.at.token)
    token = int(columns[0]) if columns.size else None  # none when only one run has the token
    top, bottom, left, right = picture.numbers
    ends = ((picture.down, top, bottom, picture.rows), (picture.across, left, right, picture.columns))
    found = []
    for word, first, last, names in ends:
        number = {"token": token, "head": at.head}.get(word.rpartition(" ")[2])
        if word == "layer" and at.layer is not None:
            number = next((first + i for i, n in enumerate(names) if n.endswith(f" {at.layer}")), None)
        found.append(number if number is not None and first <= number <= last else None)
    return found[0], found[1]

"""What one look at the Lab depends on, and what is made for it: text, pictures, and where lines stand."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from k3scope.app.lab.lab_views import Choice, Selection, Slot, draw, draw_difference
from k3scope.app.lab.picture_difference import Pairs
from k3scope.app.page.kit import templates
from k3scope.app.page.lab import lab_text
from k3scope.app.runs.run_result import RunResult
from k3scope.model.measure.picture import Picture
from k3scope.model.runs.run import Run
from k3scope.model.tokenizers.tokenizer import Token


@dataclass(frozen=True)
class LabSnapshot:
    """All that the open view depends on; equal snapshots show the same."""

    result: RunResult
    full_run: Run
    baseline: Run | None  # the run that is subtracted
    baseline_label: str  # how that run is called, empty for none
    view: str
    selection: Selection
    choices: tuple[str, ...]


def picture_of(snapshot: LabSnapshot, slot: Slot, choice: Choice) -> Picture | str:
    """The picture of a slot, or the sentence why there is none."""
    try:
        if snapshot.baseline is not None:
            return draw_difference(snapshot.full_run, snapshot.baseline, slot, choice, snapshot.selection)
        return draw(snapshot.full_run, slot, choice, snapshot.selection)
    except ValueError as error:
        text = str(error)
        return text[:1].upper() + text[1:]


def text_of(snapshot: LabSnapshot, token_of: Callable[[int], Token]) -> tuple[str, dict]:
    """The HTML over the pictures, and what the model expects after the chosen token."""
    report, problem = [], ""
    try:
        if snapshot.baseline is not None:
            report = lab_text.report(snapshot.full_run, snapshot.baseline, snapshot.result.tokens)
    except ValueError as error:
        problem = str(error)
    facts = lab_text.facts(snapshot.full_run, snapshot.view, snapshot.selection)
    text = templates.render(
        "lab_text.html", facts=facts, report=report, problem=problem, baseline=snapshot.baseline_label
    )
    expected = (
        lab_text.expected(snapshot.full_run, snapshot.selection.token, token_of)
        if snapshot.view == "tokens"
        else {}
    )
    return text, expected


def shared(snapshot: LabSnapshot) -> np.ndarray:
    """Token of the run that each column of a picture is for: all of them, or those that both runs have."""
    if snapshot.baseline is None:
        return np.arange(snapshot.full_run.length)
    try:
        return Pairs.of(snapshot.full_run, snapshot.baseline).positions[:, 0]
    except ValueError:
        return np.arange(0)


def marks(snapshot: LabSnapshot, picture: Picture) -> tuple[int | None, int | None]:
    """Row and column of a picture at which the chosen token, head or layer is."""
    selection, columns = snapshot.selection, np.flatnonzero(shared(snapshot) == snapshot.selection.token)
    token = int(columns[0]) if columns.size else None  # none when only one run has the token
    top, bottom, left, right = picture.numbers
    ends = ((picture.down, top, bottom, picture.rows), (picture.across, left, right, picture.columns))
    positions = []
    for axis, first, last, names in ends:
        number = {"token": token, "head": selection.head}.get(axis.rpartition(" ")[2])
        if axis == "layer" and selection.layer is not None:
            number = next((first + i for i, n in enumerate(names) if n.endswith(f" {selection.layer}")), None)
        positions.append(number if number is not None and first <= number <= last else None)
    return positions[0], positions[1]

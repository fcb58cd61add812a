"""What one look at the Lab depends on, and what is made for it: text, pictures, and where lines stand."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from weakref import ReferenceType

import numpy as np

from k3scope.app.lab.lab_views import VIEWS, Choice, Selection, Slot, draw, draw_difference
from k3scope.app.lab.picture_difference import Pairs
from k3scope.app.page.kit import templates
from k3scope.app.page.lab import lab_text
from k3scope.app.runs.run_result import RunResult
from k3scope.model.measure.picture import Picture
from k3scope.model.runs.run import Run
from k3scope.model.tokenizers.tokenizer import Token

DROPPED = "This run is no longer whole in memory: press Run in the dock to see inside it again."


@dataclass(frozen=True)
class LabSnapshot:
    """All that the open view depends on; equal snapshots show the same.

    A pass holds a tenth of a gigabyte: the page only refers to it, and the runner's cache says how long it is
    there.
    """

    result: RunResult
    _full_run: ReferenceType[Run]
    _baseline: ReferenceType[Run] | None  # to the run that is subtracted
    baseline_label: str  # how that run is called, empty for none
    view: str
    selection: Selection
    choices: tuple[str, ...]

    @property
    def full_run(self) -> Run:
        """ValueError when it was dropped."""
        return _there(self._full_run)

    @property
    def baseline(self) -> Run | None:
        """The run that is subtracted. ValueError when it was dropped."""
        return self._baseline and _there(self._baseline)

    @cached_property
    def shared(self) -> np.ndarray:
        """Token of the run that each column of a picture is for: all, or those that both runs have."""
        if self._baseline is None:
            return np.arange(len(self.result.tokens))
        try:
            return Pairs.of(self.full_run, self.baseline).positions[:, 0]
        except ValueError:
            return np.arange(0)


def _there(reference: ReferenceType[Run]) -> Run:
    run = reference()
    if run is None:
        raise ValueError(DROPPED)
    return run


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
    try:
        run = snapshot.full_run
    except ValueError as error:
        return templates.render("lab_text.html", facts=[], report=[], problem=error, baseline=""), {}
    if problem := VIEWS[snapshot.view].problem(run.config):
        return templates.render("lab_text.html", facts=[], report=[], problem=problem, baseline=""), {}
    report, problem = [], ""
    try:
        if snapshot.baseline is not None:
            report = lab_text.report(run, snapshot.baseline, snapshot.result.tokens)
    except ValueError as error:
        problem = str(error)
    facts = lab_text.facts(run, snapshot.view, snapshot.selection)
    text = templates.render(
        "lab_text.html", facts=facts, report=report, problem=problem, baseline=snapshot.baseline_label
    )
    expected = lab_text.expected(run, snapshot.selection.token, token_of) if snapshot.view == "tokens" else {}
    return text, expected


def marks(snapshot: LabSnapshot, picture: Picture) -> tuple[int | None, int | None]:
    """Row and column of a picture at which the chosen token, head or layer is."""
    selection, columns = snapshot.selection, np.flatnonzero(snapshot.shared == snapshot.selection.token)
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

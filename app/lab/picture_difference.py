"""A picture minus that of another run: where both have the token, and nowhere else."""

from dataclasses import dataclass, replace

import numpy as np

from k3scope.model.measure.not_finite import sentence
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_difference import aligned
from k3scope.model.runs.run import Run


@dataclass(frozen=True)
class Pairs:
    """Tokens that two runs have in common, as positions [N, 2] in the first and in the second."""

    positions: np.ndarray
    same: bool  # every token of both, in place

    @classmethod
    def of(cls, ours: Run, theirs: Run) -> "Pairs":
        first, second = (run.ids[0].tolist() for run in (ours, theirs))
        if first == second:
            return cls(np.arange(len(first)).repeat(2).reshape(-1, 2), True)
        positions = aligned(first, second)
        if not len(positions):
            raise ValueError("The two prompts have no token in common: nothing stands side by side.")
        return cls(positions, False)

    def partner(self, token: int) -> int:
        """Where the second run has that token. ValueError when it has not."""
        row = np.flatnonzero(self.positions[:, 0] == token)
        if not row.size:
            raise ValueError(f"Token {token} has no counterpart in the other run.")
        return int(self.positions[row[0], 1])


def minus(ours: Picture, theirs: Picture, pairs: Pairs) -> Picture:
    """The difference where both have a value; columns and rows of tokens only where both have the token."""
    if not pairs.same:
        first, second = pairs.positions.T
        ours, theirs = _only(ours, first), _only(theirs, second)
    if ours.image.shape != theirs.image.shape:
        raise ValueError(f"{ours.title}: the two prompts are of different length, so the maps do not fit.")
    return ours.minus(theirs)


def captioned(picture: Picture, baseline: Run) -> Picture:
    """A difference, with where the first NaN or infinity of the run that is subtracted came from."""
    if not picture.bad_count or baseline.first_bad is None:
        return picture
    return replace(picture, note=f"{picture.note} The other run: {sentence(baseline.first_bad)}".strip())


def _only(picture: Picture, tokens: np.ndarray) -> Picture:
    if picture.across == "token":
        picture = picture.select(tokens)
    return _transposed(_transposed(picture).select(tokens)) if picture.down == "token" else picture


def _transposed(picture: Picture) -> Picture:
    """Rows as columns and columns as rows."""
    span = picture.span and (*picture.span[2:], *picture.span[:2])
    return replace(
        picture,
        image=picture.image.T,
        down=picture.across,
        across=picture.down,
        rows=picture.columns,
        columns=picture.rows,
        absent=None if picture.absent is None else picture.absent.T,
        span=span,
    )

"""The end of a command whose pass was not finite."""

import sys


def report(first_bad: str | None, baseline: str | None = None) -> int:
    """Name the first hook point with NaN or infinity, of the run and of its baseline; 1 when there is one."""
    from k3scope.model.measure.not_finite import sentence

    for point, whose in ((first_bad, ""), (baseline, "the baseline: ")):
        if point:
            print(f"k3scope: {whose}{sentence(point)}", file=sys.stderr)
    return int(bool(first_bad or baseline))

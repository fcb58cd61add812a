"""What the run on show can be compared with, and how those runs are called in the menu."""

from dataclasses import replace

from k3scope.app.runs.run_link import PLAIN
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_session import RunSession

WITHOUT_INTERVENTIONS = "the run without changes"


def comparable(session: RunSession) -> list[list[str]]:
    """Value and label of every baseline that can be chosen."""
    result = session.result
    plain = [[PLAIN, WITHOUT_INTERVENTIONS]] if result.spec.interventions else []
    others = [
        [other.id, label(other)]
        for other in session.history
        if other.id != result.id and other.spec.model == result.spec.model
    ]
    chosen = session.state.baseline
    if chosen and chosen not in dict([*plain, *others]):
        shown = session.baseline  # an older link names it by its older id
        others.append([chosen, label(shown) if shown and chosen in shown.ids else f"run {chosen}"])
    return [["", "nothing"], *plain, *others]


def name_of_baseline(result: RunResult, baseline: RunResult) -> str:
    """How the run is called that another is compared with."""
    if baseline.spec == replace(result.spec, interventions=""):
        return WITHOUT_INTERVENTIONS
    return label(baseline, 60)


def label(result: RunResult, limit: int = 24) -> str:
    """A run in a menu, with at most `limit` characters of its prompt."""
    prompt = result.spec.prompt
    shown = prompt if len(prompt) <= limit else prompt[: limit - 1] + "…"
    count = len(result.interventions)
    return f"“{shown}”" + (f", {count} change{'s' if count > 1 else ''}" if count else "")

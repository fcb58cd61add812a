"""What the link says of a run, and whether a run is the one that a link names."""

from k3scope.app.link.state import State
from k3scope.app.runs import run_status
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.model.measure.not_finite import sentence

PLAIN = "plain"  # the baseline is the same run without its interventions


def link_values(spec: RunSpec, chosen_baseline: str) -> dict:
    """The fields of the link for a run; one whose weights are not known yet has no id."""
    return {
        "weights": spec.weights,
        "prompt": spec.prompt,
        "interventions": spec.interventions,
        "run_model": spec.model,
        "run_id": spec.id if spec.weights else "",
        "generated_ids": list(spec.generated_ids),
        "baseline": baseline_of(spec, chosen_baseline),
    }


def baseline_of(spec: RunSpec, chosen: str) -> str:
    """A run with interventions is compared with the plain one, unless another is chosen."""
    if spec.interventions:
        return chosen or PLAIN
    return "" if chosen in (PLAIN, spec.id) else chosen


def shows(result: RunResult | None, state: State, prompt: str) -> bool:
    """Whether the result on show, after this prompt, is what the state asks for."""
    return (
        result is not None
        and state.run_id in result.ids
        and state.interventions == result.spec.interventions
        and tuple(state.generated_ids) in ((), result.spec.generated_ids)
        and state.prompt in (None, prompt)
    )


def other_weights(result: RunResult, state: State, stored: RunSpec | None) -> str:
    """The weights that a link was made with, "" when they are those of the result or not known."""
    theirs = state.weights or (stored.weights if stored else "")
    return "" if result.of_weights(theirs) else theirs


def problem_of(result: RunResult, state: State, stored: RunSpec | None, linked: bool) -> str:
    """What a reader of a result has to know, "" for nothing. `linked`: a link asked for it.

    `stored` is the run that the link names, None when it is not known here.
    """
    if linked and (theirs := other_weights(result, state, stored)):
        return run_status.OTHER_WEIGHTS.format(theirs=theirs, ours=result.spec.weights)
    same_weights = linked and result.of_weights(state.weights)
    # an id is made of all that a run is: with the same weights, something besides the prompt is missing
    if same_weights and stored is None and state.run_id and state.run_id not in result.ids:
        return run_status.PROMPT_ALONE
    bad = result.readings.first_bad
    return sentence(bad) if bad else run_status.not_kept(result)

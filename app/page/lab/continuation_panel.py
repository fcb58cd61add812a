"""Continue a run: with a token that the visitor chooses, or with some that the model samples."""

import math

from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_session import RunSession
from k3scope.model.runs.generate import Sampling

AT_ONCE = 256  # tokens that one press can add


def on_message(session: RunSession, data: dict) -> bool:
    """Do what a message of the browser asks for. False when it is about something else."""
    result = session.result
    if result is None or session.busy:
        return False
    generated = result.spec.generated_ids
    match data:
        case {"append": int(token), "after": int(position)} if 0 <= position < len(result.tokens):
            _append(session, token, position)
        case {"generate": int(count), "temperature": int() | float() as temperature, "seed": int(seed)}:
            _generate(session, count, temperature, seed)
        case {"remove": int(count)} if 0 < count <= len(generated):
            session.continue_run(result.spec.prompt, Continuation(generated[: len(generated) - count]))
        case _:
            return False
    return True


def _generate(session: RunSession, count: int, temperature: float, seed: int) -> None:
    spec = session.result.spec
    try:
        if not 1 <= count <= AT_ONCE or not 0 <= seed < 2**31:
            raise ValueError(f"1 to {AT_ONCE} tokens can be added at once, with a seed from 0 on.")
        sampling = Sampling(float(temperature), seed=seed)
    except ValueError as error:
        session.problem = str(error)
        return
    session.continue_run(spec.prompt, Continuation(spec.generated_ids, count, sampling))


def _append(session: RunSession, token: int, position: int) -> None:
    """A token after the one at `position`: what came later is dropped."""
    result = session.result
    first, spec = result.first_generated, result.spec
    if position >= first - 1:
        session.continue_run(spec.prompt, Continuation((*spec.generated_ids[: position - first + 1], token)))
    elif result.images:
        session.problem = "With an image, tokens are added after the whole prompt only."
    else:
        ids = [token.id for token in result.tokens[: position + 1]]
        session.continue_after(ids, token)


def describe(result: RunResult) -> dict:
    """For the browser: how many tokens were added, and a sentence on how decode steps agree with one pass."""
    count = len(result.spec.generated_ids)
    if not count:
        return {"count": 0, "text": ""}
    added = f"{count:,} token{'s' if count > 1 else ''} added after the prompt"
    if result.step_error is None:
        return {"count": count, "text": f"{added}; with changes, each comes from a pass of its own."}
    if not math.isfinite(result.step_error):
        return {"count": count, "text": f"{added}; their logits are not finite."}
    agreement = f"token by token and all at once give the same logits up to {result.step_error:.1e}"
    return {"count": count, "text": f"{added}; {agreement}."}

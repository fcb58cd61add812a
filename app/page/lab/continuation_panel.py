"""Going on from a run, token by token: a token the visitor picks, or some that the model chooses."""

from k3scope.app.runs.continuation import Growth
from k3scope.app.runs.forward_pass import Run
from k3scope.app.runs.run_session import Runs
from k3scope.model.runs.generate import Sampling
from k3scope.model.tokenizers.tokenizer import Tokenizer

AT_ONCE = 256  # tokens that one press can add


def told(runs: Runs, data: dict) -> bool:
    """Do what a message of the browser asks for. False when it is about something else."""
    run = runs.run
    if run is None or runs.busy:
        return False
    match data:
        case {"pick": int(token), "after": int(at)} if 0 <= at < len(run.pieces):
            try:
                prompt, more = cut(run, runs.runner.tokenizer(run.spec.model), at)
            except ValueError as error:
                runs.problem = str(error)
                return True
            _start(runs, prompt, Growth((*more, token)))
        case {"add": int(count), "temperature": int() | float() as heat, "seed": int(seed)}:
            _add(runs, count, heat, seed)
        case {"back": int(count)} if 0 < count <= len(run.spec.more):
            _start(runs, run.spec.prompt, Growth(run.spec.more[: len(run.spec.more) - count]))
        case _:
            return False
    return True


def _add(runs: Runs, count: int, temperature: float, seed: int) -> None:
    spec = runs.run.spec
    try:
        if not 1 <= count <= AT_ONCE or not 0 <= seed < 2**31:
            raise ValueError(f"1 to {AT_ONCE} tokens can be added at once, with a seed from 0 on.")
        sampling = Sampling(float(temperature), seed=seed)
    except ValueError as error:
        runs.problem = str(error)
        return
    _start(runs, spec.prompt, Growth(spec.more, count, sampling))


def _start(runs: Runs, prompt: str, growth: Growth) -> None:
    """Run again with other tokens after the prompt; the last one is looked at."""
    spec = runs.run.spec
    runs.images, _ = runs.runner.images(spec)
    runs.start(spec.model, prompt, spec.changes, growth)
    if runs.busy:
        runs.state.token = None


def cut(run: Run, tokenizer: Tokenizer, at: int) -> tuple[str, tuple[int, ...]]:
    """Prompt and tokens after it, up to token `at`. ValueError when an image or a token would be cut."""
    first, spec = run.first_new, run.spec
    if at >= first - 1:
        return spec.prompt, spec.more[: at - first + 1]
    if run.images:
        raise ValueError("With an image, tokens are added after the whole prompt only.")
    ids = [piece.id for piece in run.pieces[: at + 1]]
    for length in range(len(ids), 0, -1):  # bytes of half a character are no text: those become added tokens
        text = tokenizer.decode(ids[:length])
        if tokenizer.encode(text) == ids[:length]:
            return text, tuple(ids[length:])
    raise ValueError(f"There is no text that ends after token {at}.")


def about(run: Run) -> dict:
    """What the browser needs to know: how many tokens were added, and a sentence on how they agree."""
    count = len(run.spec.more)
    if not count:
        return {"count": 0, "text": ""}
    words = f"{count:,} token{'s' if count > 1 else ''} added after the prompt"
    if run.step_error is None:
        return {
            "count": count,
            "text": f"{words}; with changes, each comes from a pass of its own.",
        }
    said = f"token by token and all at once give the same logits up to {run.step_error:.1e}"
    return {"count": count, "text": f"{words}; {said}."}

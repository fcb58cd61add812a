"""A run in one line: while it is on its way, when it is there, and what the run of a link lacks."""

from k3scope.app.pool.pool import pool
from k3scope.app.pool.task import Refused
from k3scope.app.runs.job import Job
from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_result import RunResult

UNKNOWN_RUN = (
    "This link names the run {run}, which this server does not know, and the prompt is not in the link. "
    "Type the prompt and run it again."
)
PROMPT_ALONE = (
    "The run that this link names is not this prompt alone: it had an image, say, which this server does not "
    "have. Here is the prompt by itself; add what it had and press Run."
)
OTHER_MODEL = (
    "This link was made with {model}, which does not run here{why}. Press Run to use {ours} instead."
)
OTHER_WEIGHTS = (
    "This link was made with another model of that name ({theirs}; here {ours}): weights, config or "
    "tokenizer differ, and so can the numbers."
)
OTHER_BASELINE = (
    "The run to compare with was made with another model of that name ({theirs}; here {ours}): it is shown "
    "as this one runs it."
)
UNKNOWN_BASELINE = "The run {run} to compare with is not known here; run it again, or choose another."
LOST_IMAGES = (
    "{lost} of the {count} images of this run are no longer kept here. Add them again, or leave them out, "
    "and press Run."
)
PASSING = " · letting others pass"
OPENING = "opening the run of this link"
NOTHING_KEPT = "This server keeps no run that is yours alone."
NOT_KEPT = (
    "This run is shown but not kept: its link will not bring it back, only what the address itself holds "
    "({why})."
)
NOT_FORGOTTEN = "Your runs are still kept: they could not be removed ({why}). Try again in a moment."
LOST_IMAGE = "The image of this run is no longer kept here. Add it again, or leave it out, and press Run."


def not_kept(run: RunResult) -> str:
    """That a run on show is not in the store, "" when it is."""
    return NOT_KEPT.format(why=run.not_kept) if run.not_kept else ""


def forgotten(count: int) -> str:
    """That the runs of a visitor are gone."""
    return f"{count:,} run{'s' if count != 1 else ''} removed from this server." if count else NOTHING_KEPT


def what_is_kept(in_memory: bool, bounds: Retention) -> list[str]:
    """For a visitor, in paragraphs: what the server keeps of a run, how long, and who can read it."""
    age = f" None is kept longer than {days(bounds.days)} after it ran last." if bounds.days else ""
    where = "in the memory of this server, until it is restarted" if in_memory else "in a file on this server"
    return [
        f"Of each run: model, prompt, images, changes and added tokens, {where}, so that its link works. "
        "Results are not kept: the run is made again.",
        f"At most {bounds.runs:,} runs and {bounds.megabytes:,} MB together; what ran longest ago goes first."
        + age,
        "Whoever has the link of a run can read its prompt and see its images. Whose a run is, is known by a "
        "random number in this browser, of which the server keeps a hash.",
    ]


def days(count: int) -> str:
    return f"{count:,} day{'s' if count != 1 else ''}"


def summary(run: RunResult) -> str:
    """One line on a run: the model, how much, how long, on what."""
    rows = sum(image.rows.size for image in run.images)
    tokens = [f"{len(run.tokens):,} token{'s' if len(run.tokens) != 1 else ''}"]
    counts = {"image rows": rows, "added": len(run.spec.generated_ids)}
    tokens += [f"{count:,} of them {what}" for what, count in counts.items() if count]
    parts = [
        run.spec.model,
        "random weights" if run.random_weights else f"weights {run.spec.weights}",
        ", ".join(tokens),
        f"{run.milliseconds:,.0f} ms",
        run.path,
    ]
    if run.interventions:
        parts.append(f"{len(run.interventions)} change{'s' if len(run.interventions) != 1 else ''}")
    if not run.spec.prompt and not run.images:
        parts.append("an empty prompt runs as the begin-of-text token alone")
    return " · ".join(parts)


def failure(error: BaseException, what: str = "run") -> str:
    """Why something that was asked for is not there, as a sentence."""
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, MemoryError):
        return f"The {what} needs more memory than there is for it here."
    return f"The {what} failed: {str(error) or type(error).__name__}"


def _place(job: Job) -> str:
    place, seconds = job.standing()
    where = f"place {place:,}" if place > 1 else "your turn is next"
    return f"{where} · about {max(1, round(seconds)):,} s" if place > 1 or seconds >= 1 else where


def progress(job: Job) -> dict:
    """How far a job is: text, and how much of it is done."""
    size = f"{job.tokens:,} tokens"
    waits = PASSING if job.suspended else ""
    match job.stage:
        case "reading":
            before = pool.place(job.reading) if job.reading else 0
            return {"text": f"reading the prompt · place {before + 1}" if before else "reading the prompt"}
        case "queued":
            return {"text": f"{size} · {_place(job)}"}
        case "loading":
            return {"text": f"{size} · loading {job.model}"}
        case "sampling" if job.continuation.tokens:
            token = min(job.sampled + 1, job.continuation.tokens)
            return {
                "text": f"{size} · token {token} of {job.continuation.tokens}{waits}",
                "done": job.sampled,
                "of": job.continuation.tokens,
            }
        case "measuring":
            return {"text": f"{size} · measuring", "done": job.layers, "of": job.layers}
    layer = min(job.layer + 1, job.layers)
    return {"text": f"{size} · layer {layer} of {job.layers}{waits}", "done": job.layer, "of": job.layers}


def lost_images(lost: int, count: int) -> str:
    """That some of the images of a run are not here."""
    return LOST_IMAGE if count == 1 else LOST_IMAGES.format(lost=lost, count=count)

"""What is said of a run in one line: while it is on its way, and when it is there."""

from k3scope.app.runs.forward_pass import Run
from k3scope.app.runs.job import Job

GONE = (
    "{lost} of the {count} images of this run are no longer kept here. Add them again, or leave them out, "
    "and press Run."
)
GONE_ONE = "The image of this run is no longer kept here. Add it again, or leave it out, and press Run."


def summary(run: Run) -> str:
    """One line on a run: the model, how much, how long, on what."""
    rows = sum(image.rows.size for image in run.images)
    tokens = [f"{len(run.pieces):,} token{'s' if len(run.pieces) != 1 else ''}"]
    counts = {"image rows": rows, "added": len(run.spec.more)}
    tokens += [f"{count:,} of them {what}" for what, count in counts.items() if count]
    parts = [
        run.spec.model,
        "random weights" if run.random_weights else f"weights {run.spec.weights}",
        ", ".join(tokens),
        f"{run.milliseconds:,.0f} ms",
        run.path,
    ]
    if run.changes:
        parts.append(f"{len(run.changes)} change{'s' if len(run.changes) != 1 else ''}")
    if not run.spec.prompt and not run.images:
        parts.append("an empty prompt runs as the begin-of-text token alone")
    return " · ".join(parts)


def progress(job: Job) -> dict:
    """What a job is at: text, and how much of it is done."""
    size = f"{job.tokens:,} tokens"
    match job.stage:
        case "waiting":
            return {"text": f"{size} · waiting for the runs before this one"}
        case "loading":
            return {"text": f"{size} · loading {job.model}"}
        case "choosing" if job.growth.tokens:
            return {
                "text": f"{size} · token {job.added + 1} of {job.growth.tokens}",
                "done": job.added,
                "of": job.growth.tokens,
            }
        case "measuring":
            return {"text": f"{size} · measuring", "done": job.layers, "of": job.layers}
    layer = min(job.layer + 1, job.layers)
    return {"text": f"{size} · layer {layer} of {job.layers}", "done": job.layer, "of": job.layers}


def lost_images(lost: int, count: int) -> str:
    """That some of the images of a run are not here."""
    return GONE_ONE if count == 1 else GONE.format(lost=lost, count=count)

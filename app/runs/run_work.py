"""What a run asks of its model, so that it has a price before it begins."""

from k3scope.app.runs.continuation import STEPPED
from k3scope.app.runs.job import Job
from k3scope.app.runs.price import Work
from k3scope.model.config import Config
from k3scope.model.interventions.edits import source_points
from k3scope.model.interventions.intervention import loads

NUMBER = 4  # bytes


def work_of(config: Config, job: Job) -> Work:
    """The passes and decode steps of a run whose prompt has been read."""
    interventions, continuation = loads(job.interventions), job.continuation
    sources = source_points(config, interventions)
    if interventions:  # they count positions: every token is a pass of its own
        held_bytes = _source_bytes(config, job.tokens, sum(map(len, sources.values())))
        return Work(job.tokens, len(sources) + continuation.tokens, held_bytes=held_bytes)
    if not continuation.length:
        return Work(job.tokens)
    steps = min(STEPPED, len(continuation.generated_ids)) + continuation.tokens
    return Work(job.tokens, 1, steps - 1, _held_bytes(config, job.tokens, steps))


def _source_bytes(c: Config, tokens: int, points: int) -> int:
    """Hook points of runs to patch from, as if they were as long as this one."""
    return NUMBER * points * tokens * max(c.d, c.top_k * (c.latent or c.d))


def _held_bytes(c: Config, tokens: int, steps: int) -> int:
    """The cache after so many tokens, and the logits of the steps."""
    latents = c.kinds.count("mla") * tokens * (c.kv_rank + c.shared_key_dim)
    states = c.kinds.count("kda") * c.kda_heads * c.kda_head_dim * (c.kda_head_dim + 3 * c.conv)
    return NUMBER * (latents + states + steps * c.vocab)

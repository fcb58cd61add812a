"""Continue a prompt token by token, and reuse what a prompt shares with the one before."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from k3scope.model.cache import Cache
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.not_finite import NotFinite
from k3scope.model.measure.statistics import first_bad_of
from k3scope.model.tracing import check_ids
from k3scope.model.vision.tower import Images

SNAPSHOT_EVERY = 64  # tokens; a KDA state cannot be rewound, only copied


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; temperature 0 takes the likeliest."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if not self.temperature >= 0:
            raise ValueError(f"temperature is {self.temperature}; expected 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; expected more than 0 and at most 1")

    def generator(self, position: int) -> torch.Generator:
        """Draws the token at a position: the same one in one go, step by step, and after a restart."""
        return torch.Generator().manual_seed(1_000_003 * self.seed + position)


class Session:
    """A cache that follows an edited prompt: only what changed, back to the last snapshot, is computed."""

    def __init__(self, model: KimiK3):
        self.model = model
        self.ids: list[int] = []
        self.snapshots: list[Cache] = [model.new_cache()]
        self.computed = 0  # tokens run by the last call

    @torch.no_grad()
    def run(self, ids: list[int]) -> Tensor:
        """Logits [vocab] after the last of `ids`, the same as of a fresh pass."""
        check_ids(self.model, torch.tensor([ids]))
        shared = _common_prefix(self.ids, ids)
        # the last token must run again: its logits are not stored
        self.snapshots = [s for s in self.snapshots if s.length <= min(shared, len(ids) - 1)]
        cache = self.snapshots[-1].copy()
        self.computed = len(ids) - cache.length
        while cache.length < len(ids):
            stop = min(len(ids), (cache.length // SNAPSHOT_EVERY + 1) * SNAPSHOT_EVERY)
            logits = self.model(torch.tensor([ids[cache.length : stop]]), cache)
            self.snapshots.append(cache.copy())
        self.ids = list(ids)
        return logits[0, -1]


def generate(
    model: KimiK3, ids: list[int], tokens: int, sampling: Sampling | None = None, stop: Iterable[int] = ()
) -> Iterator[int]:
    """Yield up to `tokens` new ids after `ids`; a stop token is yielded and ends it.

    ValueError when the logits are not finite: it names the first block that produced NaN or infinity.
    """
    prompt, stop = check_ids(model, torch.tensor([ids]))[0], set(stop)
    for new, _ in steps(model, prompt, tokens=tokens, sampling=sampling):
        yield new
        if new in stop:
            return


@torch.no_grad()
def steps(
    model: KimiK3,
    ids: Tensor,
    continuation: Sequence[int] = (),
    tokens: int = 0,
    sampling: Sampling | None = None,
    images: Images | None = None,
) -> Iterator[tuple[int, Tensor]]:
    """Read a prompt [T] at once, then go on token by token: each with the logits [vocab] of its step.

    First the ids of `continuation`, then `tokens` chosen ones. ValueError as in `generate`.
    """
    sampling, cache, all_ids = sampling or Sampling(), model.new_cache(), ids.tolist()
    logits = model(ids[None], cache, images=images)[0, -1]
    for n in range(len(continuation) + tokens):
        if n:
            logits = model(torch.tensor([all_ids[-1:]]), cache)[0, -1]
        if n < len(continuation):
            new = continuation[n]
        else:
            _refuse_bad(model, torch.tensor([all_ids]), logits, images)
            new = choose(logits, sampling, sampling.generator(len(all_ids)))
        all_ids.append(new)
        yield new, logits


def _refuse_bad(model: KimiK3, ids: Tensor, logits: Tensor, images: Images | None = None) -> None:
    if not logits.isfinite().all():
        point = first_bad_of(model, ids, images=images)
        raise NotFinite(f"the logits are not finite, so nothing is sampled; first NaN or infinity: {point}")


def choose(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> int:
    """One id from logits [vocab]."""
    if sampling.temperature == 0:
        return int(logits.argmax())
    probs = (logits.double() / sampling.temperature).softmax(-1)
    ordered, order = probs.sort(descending=True)
    before = ordered.cumsum(-1) - ordered  # probability of everything likelier
    ordered = ordered.masked_fill(before >= sampling.top_p, 0.0)
    return int(order[torch.multinomial(ordered, 1, generator=generator)])


def _common_prefix(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))

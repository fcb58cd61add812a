"""A run in the queue or on its way: what it is, how far it is, and how it is stopped."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from k3scope.app.runs.continuation import NO_CONTINUATION, Continuation
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.uploads import Upload

_LAYER_DONE = re.compile(r"language_model\.model\.layers\.(\d+)\.prefix_sum")


class Cancelled(Exception):
    """The visitor stopped this run."""


@dataclass
class Job:
    """A run on its way. Read `stage`, `layer` at any time; `future` ends with a RunResult or an error."""

    model: str
    prompt: str
    ids: list[int]  # empty until the prompt is read
    layers: int
    tokens: int  # positions, 0 until the prompt is read: every image counts with all its rows
    images: tuple[Upload, ...] = ()
    interventions: str = ""
    continuation: Continuation = NO_CONTINUATION
    # then "queued", "loading", "sampling" when tokens are to be added, "running", "measuring"
    stage: str = "reading"
    layer: int = 0  # layers done
    sampled: int = 0  # tokens sampled so far
    suspended: bool = False  # it has begun, and lets others pass
    cancelled: bool = False
    stored_spec: RunSpec | None = None  # the run that it is, once its id is known; kept unless `not_kept`
    owners: set[str] = field(default_factory=set)  # of the visitors who wait for it, hashed
    not_kept: str = ""  # why the store does not have it
    future: Future = field(default_factory=Future, repr=False)
    reading: Future | None = field(default=None, repr=False)  # of the ids
    standing: Callable[[], tuple[int, float]] = field(default=lambda: (0, 0.0), repr=False)
    withdraw: Callable[[], None] = field(default=lambda: None, repr=False)  # out of the queue, if it waits
    _visitors: int = 1  # who waits for it
    _joining: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def spec(self, weights: str) -> RunSpec:
        """The run that this becomes with these weights."""
        return RunSpec(
            self.model,
            weights,
            self.prompt,
            tuple(image.sha for image in self.images),
            self.interventions,
            self.continuation.generated_ids,
        )

    @property
    def key(self) -> tuple:
        """Equal for jobs that would give the same run."""
        shas = tuple(image.sha for image in self.images)
        return self.model, self.prompt, shas, self.interventions, self.continuation

    @property
    def done(self) -> bool:
        return self.cancelled or self.future.done()

    @property
    def place(self) -> int:
        """Place in the queue, 1 being the next; 0 when it does not wait."""
        return self.standing()[0]

    @property
    def wait_seconds(self) -> float:
        """Seconds until it begins, about; 0 when it does not wait."""
        return self.standing()[1]

    def join(self) -> bool:
        """Wait for it as well. False when nobody waits for it any more."""
        with self._joining:
            self._visitors += not self.cancelled
            return not self.cancelled

    def cancel(self) -> None:
        """Wait for it no more. When nobody does, it ends: where it waits at once, else at the next hook
        point of the forward pass.
        """
        with self._joining:
            self._visitors -= 1
            self.cancelled = self.cancelled or not self._visitors
        if self.cancelled:
            self.withdraw()
            if self.reading is not None:
                self.reading.cancel()

    def enter(self, stage: str) -> None:
        """Go on to a stage. Cancelled when nobody waits for it."""
        if self.cancelled:
            raise Cancelled
        self.stage, self.layer = stage, self.layer if stage == "measuring" else 0

    def on_token(self, count: int) -> None:
        """So many tokens are sampled."""
        self.sampled = count
        self.on_point("")

    def on_point(self, path: str) -> None:
        """The forward pass reached a hook point: the place where it can be stopped."""
        if self.cancelled:
            raise Cancelled
        if done := _LAYER_DONE.fullmatch(path):
            self.layer = int(done[1]) + 1

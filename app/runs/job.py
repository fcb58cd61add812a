"""A run on its way: what it is, how far it is, and how it is stopped."""

import re
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field

from k3scope.app.runs.continuation import NOTHING, Growth
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.uploads import Upload

_LAYER_DONE = re.compile(r"language_model\.model\.layers\.(\d+)\.prefix_sum")


class Cancelled(Exception):
    """The visitor stopped this run."""


@dataclass
class Job:
    """A run on its way. Read `stage`, `layer` at any time; `future` ends with a Run or an error."""

    model: str
    prompt: str
    ids: list[int]
    layers: int
    tokens: int  # positions: every image counts with all its rows
    images: tuple[Upload, ...] = ()
    changes: str = ""
    growth: Growth = NOTHING
    stage: str = "waiting"  # then "loading", "choosing" when tokens are to be added, "running", "measuring"
    layer: int = 0  # layers done
    added: int = 0  # tokens chosen so far
    cancelled: bool = False
    named: RunSpec | None = None  # the run that it is, once that is known and kept
    future: Future = field(default_factory=Future, repr=False)
    _waiting: int = 1  # visitors
    _joining: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def spec(self, weights: str) -> RunSpec:
        shas = tuple(image.sha for image in self.images)
        return RunSpec(self.model, weights, self.prompt, shas, self.changes, self.growth.more)

    @property
    def key(self) -> tuple:
        """Equal for jobs that would give the same run."""
        return self.model, self.prompt, tuple(image.sha for image in self.images), self.changes, self.growth

    @property
    def over(self) -> bool:
        return self.cancelled or self.future.done()

    def join(self) -> bool:
        """Wait for it as well. False when nobody waits for it any more."""
        with self._joining:
            self._waiting += not self.cancelled
            return not self.cancelled

    def cancel(self) -> None:
        """Wait for it no more. Without anybody who does it stops at the next point of the forward pass."""
        with self._joining:
            self._waiting -= 1
            self.cancelled = self.cancelled or not self._waiting

    def enter(self, stage: str) -> None:
        if self.cancelled:
            raise Cancelled
        self.stage = stage

    def at_token(self, count: int) -> None:
        self.added = count
        self.at_point("")

    def at_point(self, path: str) -> None:
        if self.cancelled:
            raise Cancelled
        if done := _LAYER_DONE.fullmatch(path):
            self.layer = int(done[1]) + 1

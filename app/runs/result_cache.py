"""Results by run id: what is in memory, and the store that knows what older runs were."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from functools import cached_property

from torch import Tensor

from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.uploads import Upload
from k3scope.model.runs.run import Run

RESULTS = 48  # in memory, about 1 MB each at most
# Of the passes that are kept with all points, 65 KB a token in our small models: two of the longest prompts,
# 2,048 tokens, can be compared.
FULL_RUN_BYTES = 272 * 2**20


class ResultCache:
    """Results of the latest runs, full passes of the last few, specs and images of many; for any thread."""

    def __init__(self, store: Store):
        self._store = store
        self._results: OrderedDict[str, RunResult] = OrderedDict()
        self._full_runs: OrderedDict[str, Run] = OrderedDict()
        self._full_run_bytes: dict[str, int] = {}
        self._bytes_per_token = 0  # of the last pass
        self._lock = threading.Lock()

    def result(self, run_id: str) -> RunResult | None:
        """A finished run that is still in memory."""
        with self._lock:
            if result := self._results.get(run_id):
                self._results.move_to_end(run_id)
            return result

    def full_run(self, run_id: str) -> Run | None:
        """The pass of a run with all hook points that the Lab reads; only the latest few are kept."""
        with self._lock:
            if run := self._full_runs.get(run_id):
                self._full_runs.move_to_end(run_id)
            return run

    def complete(self, run_id: str) -> RunResult | None:
        """A result of which nothing has been dropped, so that the run need not be repeated.

        A run that could not be kept is repeated: perhaps now it can.
        """
        result = self.result(run_id) if self.full_run(run_id) else None
        return None if result is None or result.not_kept else result

    def spec(self, run_id: str) -> RunSpec | None:
        """What a run was, from memory or the store, which may take a moment; None when neither knows it."""
        return self.spec_in_memory(run_id) or self._store.get(run_id)

    def spec_in_memory(self, run_id: str) -> RunSpec | None:
        """What a run was whose result is in memory."""
        result = self.result(run_id)
        return result.spec if result else None

    def image_files(self, spec: RunSpec) -> list[tuple[str, bytes]]:
        """Names and bytes of the images of a run, of those that are still stored."""
        return [file for sha in spec.images if (file := self._store.image(sha))]

    def register(self, spec: RunSpec, images: Sequence[Upload], owners: Collection[str] = ()) -> None:
        """From now on the id brings the run back, whether it comes to its end or not.

        StoreError when it cannot be kept; then it is only in memory.
        """
        self._store.put(spec, {image.sha: (image.name, image.data) for image in images}, owners)

    def own(self, run_id: str, owner: str, if_nobody: bool) -> None:
        """A run is this owner's too, or only if it is nobody's. StoreError when that cannot be written."""
        self._store.own(run_id, owner, if_nobody)

    def forget(self, owner: str, shown: Collection[str] = ()) -> int:
        """Remove what is one owner's alone from the store and from memory; the number of runs.

        `shown` names runs of that owner that the store may not have. StoreError: nothing is removed.
        """
        gone = set(self._store.forget(owner)) if owner else set()
        gone |= {run_id for run_id in shown if self._store.get(run_id) is None}
        with self._lock:
            for run_id in gone:
                self._results.pop(run_id, None)
                self._full_runs.pop(run_id, None)
                self._full_run_bytes.pop(run_id, None)
        return len(gone)

    @property
    def what_is_kept(self) -> tuple[bool, Retention]:
        """Whether the store is in memory only, and its bounds."""
        return self._store.in_memory, self._store.bounds

    def add(self, result: RunResult, full_run: Run) -> None:
        """Keep what came out; the oldest results and passes go first."""
        size = held_bytes(full_run)
        with self._lock:
            self._results[result.id], self._full_runs[result.id] = result, full_run
            self._full_run_bytes[result.id] = size
            self._bytes_per_token = size // full_run.length
            while len(self._results) > RESULTS:
                self._results.popitem(last=False)
            self._drop(FULL_RUN_BYTES)

    def make_room(self, tokens: int) -> bool:
        """Before a pass of so many tokens, drop older ones until its values fit in beside what stays.

        Whether any was dropped.
        """
        with self._lock:
            before = len(self._full_runs)
            self._drop(FULL_RUN_BYTES - tokens * self._bytes_per_token)
            return len(self._full_runs) < before

    def _drop(self, most: int) -> None:
        while self._full_runs and sum(self._full_run_bytes.values()) > most:
            run_id, run = self._full_runs.popitem(last=False)
            del self._full_run_bytes[run_id]
            let_go(run)


def held_bytes(run: Run) -> int:
    """What the recorded values of a pass take; two that share their memory count once."""
    tensors = [value for value in run.values.values() if isinstance(value, Tensor)]
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())


def let_go(run: Run) -> None:
    """Take its views off a pass: they refer to it, and it would stay until a collection of garbage."""
    views = [name for name in vars(run) if isinstance(getattr(type(run), name, None), cached_property)]
    for name in views:
        del vars(run)[name]

"""The queue before a model: visitors take turns, and who left it holds no place."""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager

from k3scope.app.runs.job import Cancelled, Job

LONGEST = 8  # jobs in one queue, the running one among them
LONGEST_OF_ONE = 4  # of one visitor


class FairQueue:
    """Jobs of many visitors for one model. Any thread may use it."""

    def __init__(self, model: str):
        self._model = model
        self._jobs: OrderedDict[int, deque[Job]] = OrderedDict()  # by visitor, whose turn it is first
        self._running = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Jobs in the queue, the running one among them."""
        with self._lock:
            return self._running + sum(map(len, self._jobs.values()))

    def put(self, job: Job, visitor: int) -> None:
        """The last place among the visitor's own. ValueError when there is none."""
        with self._lock:
            self._drop_cancelled()
            if self._running + sum(map(len, self._jobs.values())) >= LONGEST:
                raise ValueError(
                    f"{LONGEST} runs already wait for {self._model}; please try again in a moment."
                )
            own = self._jobs.setdefault(visitor, deque())
            # visitor 0 is the program itself (tests, commands): it has no limit of its own
            if visitor and len(own) >= LONGEST_OF_ONE:
                raise ValueError(
                    f"{LONGEST_OF_ONE} of your runs already wait for {self._model}; please let one end."
                )
            own.append(job)

    @contextmanager
    def next(self) -> Iterator[Job | None]:
        """The job whose turn it is, in the queue until the block ends; None when there is none."""
        with self._lock:
            self._drop_cancelled()
            job = self._first()
            self._running += job is not None
        try:
            yield job
        finally:
            with self._lock:
                self._running -= job is not None

    def _first(self) -> Job | None:
        if not self._jobs:
            return None
        visitor, own = self._jobs.popitem(last=False)
        job = own.popleft()
        if own:
            self._jobs[visitor] = own  # behind the others
        return job

    def _drop_cancelled(self) -> None:
        for visitor, own in list(self._jobs.items()):
            for job in [job for job in own if job.cancelled]:
                own.remove(job)
                job.future.set_exception(Cancelled())
            if not own:
                del self._jobs[visitor]

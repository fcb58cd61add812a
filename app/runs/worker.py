"""The thread that runs one model: it takes slices of jobs from a fair queue and ends their futures.

A job is a generator that stops after each pass and each token; the queue says whose slice is next.
"""

import os
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import torch

from k3scope.app.runs.continuation import Callbacks
from k3scope.app.runs.fair_queue import Entry, FairQueue, QueueBounds
from k3scope.app.runs.forward_pass import LoadedModel, PassInput, extend, forward, patch_sources
from k3scope.app.runs.job import Cancelled, Job
from k3scope.app.runs.memory import return_memory
from k3scope.app.runs.price import OBSERVED, Price, Slice, Work
from k3scope.app.runs.requester import Requester
from k3scope.app.runs.result_cache import ResultCache
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import StoreError
from k3scope.app.runs.run_work import work_of
from k3scope.app.runs.runnable_model import RunnableModel
from k3scope.model.interventions.intervention import loads
from k3scope.model.vision.preprocess import read

FEW = 20  # entries of a queue in which a standing is computed each time
STANDING_LASTS = 0.01  # seconds that it is good for, per further entry


def leave_room() -> None:
    """Half of the cores for this thread: a pass that takes all of a busy machine is 30 times slower."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))


@dataclass(eq=False)
class Suspendable:
    """A job with what is left of it, and the slices in which it runs."""

    job: Job
    work: Work
    slices: Generator[Slice | None, None, RunResult]
    standing: tuple[int, float] = (0, 0.0)
    look_again: float = 0.0  # when the standing is to be computed anew

    def end(self, error: BaseException) -> None:
        """There will be no result; what it holds is let go."""
        self.slices.close()
        self.job.future.set_exception(error)


class Worker:
    """A queue, a thread and the model that it runs. Results go to the cache that all workers share."""

    def __init__(self, model: RunnableModel, cache: ResultCache, bounds: QueueBounds | None = None):
        self.model, self._cache = model, cache
        self._queue, self._price = FairQueue(model.name, bounds), Price(model.config)
        self._lock = threading.Lock()  # of the queue; nobody computes, waits or ends a future with it
        self._closed = False
        self._thread = ThreadPoolExecutor(1, f"run-{model.name}", initializer=leave_room)

    @property
    def queued(self) -> int:
        """Jobs waiting or running."""
        with self._lock:
            return len(self._queue)

    def submit(self, job: Job, requester: Requester) -> None:
        """Put a job in the queue. ValueError when too much waits there, Cancelled after the end."""
        run = Suspendable(job, work_of(self.model.config, job), self._run(job))
        entry = Entry(run, requester.visitor, address=requester.address)
        with self._lock:
            if self._closed:
                raise Cancelled
            for waiting in (*self._queue, entry):  # others ran meanwhile: what is known of the model is more
                self._estimate(waiting)
            self._queue.put(entry)
            job.standing, job.withdraw = partial(self._standing, entry), partial(self._withdraw, entry)
            self._thread.submit(self._run_next)
        if job.cancelled:  # before it could be withdrawn
            job.withdraw()

    def close(self) -> None:
        """Finish the slice that runs, drop the rest."""
        with self._lock:
            self._closed = True
            waiting = [entry for entry in self._queue if not self._queue.running(entry)]
            for entry in waiting:
                self._queue.remove(entry)
        self._thread.shutdown(wait=False, cancel_futures=True)
        for entry in waiting:
            entry.item.end(Cancelled())

    def _estimate(self, entry: Entry) -> None:
        work = entry.item.work
        if entry.item.job.cancelled:  # it ends at its next hook point, and takes nobody's room
            entry.seconds = entry.slice_seconds = 0.0
            return
        entry.seconds, entry.slice_seconds = self._price.seconds(work), self._price.first(work)
        entry.held_bytes = work.held_bytes

    def _standing(self, entry: Entry) -> tuple[int, float]:
        with self._lock:
            now = time.monotonic()
            if self._queue.running(entry) or entry not in self._queue:
                return 0, 0.0
            if now >= entry.item.look_again:
                entry.item.standing = self._queue.standing(entry)
                # everybody who waits asks many times a second, and each answer looks at all of them
                entry.item.look_again = now + STANDING_LASTS * (len(self._queue) - FEW)
            return entry.item.standing

    def _withdraw(self, entry: Entry) -> None:
        """End a job where it waits; one that runs ends itself."""
        with self._lock:
            if self._queue.running(entry) or not self._queue.remove(entry):
                return
        entry.item.end(Cancelled())

    def _run_next(self) -> None:
        """Run whose slice it is, not always the job that asked for this, until a slice for others is due."""
        with self._lock:
            entry = self._queue.next()
        if entry is None:  # it was cancelled meanwhile
            return
        run = entry.item
        run.job.suspended = False
        try:
            while (result := self._run_slice(entry)) is None:
                with self._lock:
                    if run.job.cancelled or self._closed:
                        raise Cancelled
                    if self._queue.others_first(entry):
                        run.job.suspended = True
                        self._queue.step_back(entry)
                        self._thread.submit(self._run_next)
                        return
        except BaseException as error:  # whoever waits for the job gets it
            self._remove(entry)
            run.end(error)
        else:
            self._remove(entry)
            run.job.future.set_result(result)
        return_memory()

    def _remove(self, entry: Entry) -> None:
        with self._lock:
            self._queue.remove(entry)

    def _run_slice(self, entry: Entry) -> RunResult | None:
        """The next slice of a run, paid for by its visitor; the result when that was the last."""
        run = entry.item
        try:
            while True:
                start = time.perf_counter()
                done = next(run.slices)
                if done is None:  # weights and store: nobody pays for them
                    continue
                seconds = time.perf_counter() - start
                run.work = run.work.after(done)
                with self._lock:
                    if not run.job.images:  # the tower takes time that no number of tokens tells
                        self._price.learn(done, seconds)
                    self._estimate(entry)
                    self._queue.charge(entry, seconds)
                if done.kind != OBSERVED:  # after that one there is a result, and nothing to wait for
                    return None
        except StopIteration as over:
            return over.value

    def _run(self, job: Job) -> Generator[Slice | None, None, RunResult]:
        job.enter("loading")
        loaded = self.model.load()
        spec = job.spec(self.model.weights)
        if not job.continuation.tokens:  # with tokens to sample the id is known afterwards only
            if result := self._cache.complete(spec.id):
                return result
            self._register(spec, job)
        yield None
        if self._cache.make_room(job.tokens):
            return_memory()
        result, full_run = yield from self._pass(loaded, spec, job)
        yield Slice(OBSERVED, job.tokens)
        if job.continuation.tokens:
            self._register(result.spec, job)
        result = replace(result, not_kept=job.not_kept)
        self._cache.add(result, full_run)
        return result

    def _register(self, spec: RunSpec, job: Job) -> None:
        """Keep what the run is; it goes on where that fails. Cancelled: nothing is kept of it."""
        job.enter(job.stage)
        try:
            self._cache.register(spec, job.images, job.owners)
        except StoreError as error:
            job.not_kept = str(error)
        job.stored_spec = spec

    def _pass(self, loaded: LoadedModel, spec: RunSpec, job: Job) -> Generator[Slice, None, tuple]:
        """The result and the full run, which `forward_pass.forward` gives."""
        interventions = loads(spec.interventions)
        job.enter("running")
        sources = yield from patch_sources(
            loaded, interventions, self.model.all_ids, self._cache.spec, job.on_point
        )
        inputs = PassInput(spec, job.ids, [read(image.data) for image in job.images], sources)
        if job.continuation.tokens:
            job.enter("sampling")
        inputs = yield from extend(loaded, inputs, job.continuation, Callbacks(job.on_point, job.on_token))
        job.enter("running")
        return forward(loaded, inputs, job.on_point, lambda: job.enter("measuring"))

"""The thread that runs one model: it takes jobs from a fair queue, does the pass, and ends their futures."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch

from k3scope.app.runs.continuation import Callbacks
from k3scope.app.runs.fair_queue import FairQueue
from k3scope.app.runs.forward_pass import LoadedModel, PassInput, extend, forward, patch_sources
from k3scope.app.runs.job import Job
from k3scope.app.runs.memory import return_memory
from k3scope.app.runs.result_cache import ResultCache
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import StoreError
from k3scope.app.runs.runnable_model import RunnableModel
from k3scope.model.interventions.intervention import loads
from k3scope.model.runs.run import Run
from k3scope.model.vision.preprocess import read


def leave_room() -> None:
    """Half of the cores for this thread: a pass that takes all of a busy machine is 30 times slower."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))


class Worker:
    """A queue, a thread and the model that it runs. Results go to the cache that all workers share."""

    def __init__(self, model: RunnableModel, cache: ResultCache):
        self.model, self._cache = model, cache
        self._queue = FairQueue(model.name)
        self._thread = ThreadPoolExecutor(1, f"run-{model.name}", initializer=leave_room)

    @property
    def queued(self) -> int:
        """Jobs waiting or running."""
        return len(self._queue)

    def submit(self, job: Job, visitor: int) -> None:
        """Put a job in the queue. ValueError when it is full."""
        self._queue.put(job, visitor)
        self._thread.submit(self._run_next)

    def close(self) -> None:
        """Finish what runs, drop what waits."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _run_next(self) -> None:
        """Run whose turn it is: not always the job that asked for this."""
        with self._queue.next() as job:
            if job is None:  # it was cancelled meanwhile
                return
            try:
                job.future.set_result(self._run(job))
            except BaseException as error:  # whoever waits for the job gets it
                job.future.set_exception(error)

    def _run(self, job: Job) -> RunResult:
        job.enter("loading")
        loaded = self.model.load()
        spec = job.spec(self.model.weights)
        if not job.continuation.tokens:  # with tokens to sample the id is known afterwards only
            if result := self._cache.complete(spec.id):
                return result
            self._register(spec, job)
        self._cache.make_room(job.tokens)
        try:
            result, full_run = self._pass(loaded, spec, job)
        finally:
            return_memory()
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

    def _pass(self, loaded: LoadedModel, spec: RunSpec, job: Job) -> tuple[RunResult, Run]:
        interventions = loads(spec.interventions)
        sources = patch_sources(loaded, interventions, self.model.all_ids, self._cache.spec)
        inputs = PassInput(spec, job.ids, [read(image.data) for image in job.images], sources)
        if job.continuation.tokens:
            job.enter("sampling")
        inputs = extend(loaded, inputs, job.continuation, Callbacks(job.on_point, job.on_token))
        job.enter("running")
        return forward(loaded, inputs, job.on_point, lambda: job.enter("measuring"))

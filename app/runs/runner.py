"""Runs for all visitors: which worker runs a prompt, who waits for which job, and where results are."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial

from k3scope.app.models import RUNNABLE
from k3scope.app.pool.pool import READING, submit
from k3scope.app.pool.task import Refused
from k3scope.app.runs import run_status
from k3scope.app.runs.continuation import NO_CONTINUATION, Continuation
from k3scope.app.runs.job import Cancelled, Job
from k3scope.app.runs.memory import returning_memory
from k3scope.app.runs.requester import NOBODY, Requester
from k3scope.app.runs.result_cache import ResultCache
from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.runnable_model import RunnableModel
from k3scope.app.runs.uploads import Upload, accept, held
from k3scope.app.runs.worker import Worker, leave_room
from k3scope.model import Config
from k3scope.model.interventions.intervention import Intervention
from k3scope.model.runs.run import Run
from k3scope.model.tokenizers.tokenizer import Tokenizer

READERS = 4  # threads that wait for the store
MEASURING = 2  # threads that draw pictures of full runs


class Runner:
    """The models that run here, shared by all visitors and safe to call from any thread."""

    def __init__(
        self,
        models: Mapping[str, str] | Sequence[str] = RUNNABLE,
        store: Store | None = None,
        unavailable: Mapping[str, str] | None = None,
    ):
        """`models` run: names, or a name and what is loaded for it. `unavailable`: others, and why not."""
        sources = dict(models) if isinstance(models, Mapping) else {name: name for name in models}
        self._cache = ResultCache(Store() if store is None else store)
        self._workers = {
            name: Worker(RunnableModel(name, source), self._cache) for name, source in sources.items()
        }
        self._unavailable = unavailable or {}
        self._measuring = ThreadPoolExecutor(MEASURING, "measure", initializer=leave_room)
        self._reading = ThreadPoolExecutor(READERS, "store")
        self._jobs: dict[tuple, Job] = {}  # not done yet, by what they are
        self._joining = threading.Lock()
        self.observers: list[Callable[[Job], None]] = []  # called with every job that begins

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._workers)

    @property
    def queued(self) -> dict[str, int]:
        """Runs waiting or running, by model."""
        return {name: worker.queued for name, worker in self._workers.items()}

    def random_weights(self, model: str) -> bool:
        return self._model(model).random_weights

    def config(self, model: str) -> Config:
        return self._model(model).config

    def tokenizer(self, model: str) -> Tokenizer:
        return self._model(model).tokenizer

    def why_unavailable(self, model: str) -> str:
        """In brackets, why a model does not run here; "" when that is not known."""
        return f" ({self._unavailable[model]})" if model in self._unavailable else ""

    def check(self, model: str, tokens: int, interventions: Sequence[Intervention]) -> None:
        """ValueError when interventions do not fit a model or a prompt of so many tokens."""
        self._model(model).check(tokens, interventions)

    def count(self, model: str, prompt: str) -> int:
        """Tokens of a prompt."""
        return len(self._model(model).encode(prompt))

    def result(self, run_id: str) -> RunResult | None:
        """A finished run that is still in memory."""
        return self._cache.result(run_id)

    def full_run(self, run_id: str) -> Run | None:
        """The pass of a run with all hook points that the Lab reads; only the latest few are kept."""
        return self._cache.full_run(run_id)

    def spec(self, run_id: str) -> RunSpec | None:
        """What a run was, from memory or the store; None when neither knows it."""
        return self._cache.spec(run_id)

    def find(self, run_id: str) -> Future:
        """What a run was, on its way: a RunSpec, None when neither memory nor store knows it."""
        if spec := self._cache.spec_in_memory(run_id):
            return _done(spec)
        return self._reading.submit(self._cache.spec, run_id)

    def text_before(self, model: str, ids: Sequence[int], visitor: int = 0) -> Future:
        """The text that ends with these ids and the ids that no text ends with, on their way."""
        return self._model(model).text_before(ids, visitor)

    def images(self, spec: RunSpec, visitor: int = 0) -> Future:
        """The images of a run that are still stored, on their way: a list of Upload."""
        return self._reading.submit(self._images, spec, visitor) if spec.images else _done([])

    def _images(self, spec: RunSpec, visitor: int) -> list[Upload]:
        files = self._cache.image_files(spec)
        images = []
        for file in files:
            try:
                upload = submit(READING, "The image", accept, *file, visitor=visitor).result()
            except Refused:
                raise
            except ValueError:  # the store is damaged there
                continue
            held.add(upload)
            images.append(upload)
        return images

    def own(self, run_id: str, owner: str, if_nobody: bool) -> None:
        """A run is this owner's too, or only if it is nobody's. StoreError when that cannot be written."""
        self._cache.own(run_id, owner, if_nobody)

    def forget(self, owner: str, shown: Collection[str] = ()) -> int:
        """Remove the runs that are one owner's alone, and those shown that are not kept; the number of runs.

        It writes to the disk and may wait two seconds for it. StoreError: nothing is removed.
        """
        return self._cache.forget(owner, shown)

    @property
    def what_is_kept(self) -> tuple[bool, Retention]:
        """Whether the store is in memory only, and its bounds."""
        return self._cache.what_is_kept

    def submit(
        self,
        model: str,
        prompt: str,
        images: Sequence[Upload] = (),
        interventions: str = "",
        continuation: Continuation = NO_CONTINUATION,
        requester: Requester = NOBODY,
    ) -> Job:
        """Have a prompt read and put in the queue of its model; who asks for the same run waits for one job.

        ValueError for what can be seen at once: an unknown model, a prompt that is far too long. What is
        seen later, when the prompt has been read, as too many tokens or a full queue, ends the job's future
        with Refused.
        """
        runnable, owners = self._model(model), {requester.owner} - {""}
        job = runnable.job(prompt, images, interventions, continuation)
        if runnable.weights and not continuation.tokens:
            result = self._cache.complete(job.spec(runnable.weights).id)
            if result is not None:
                job.future.set_result(result)  # no need to wait for a turn
                return job
        with self._joining:
            self._jobs = {key: other for key, other in self._jobs.items() if not other.done}
            if (same := self._jobs.get(job.key)) and same.join():
                same.owners.update(owners)
                return same
            self._jobs[job.key] = job
        for observe in self.observers:
            observe(job)
        job.owners.update(owners)
        try:
            job.reading = runnable.read(job, requester.visitor)
        except ValueError as error:
            job.future.set_exception(error)
            raise
        job.reading.add_done_callback(partial(self._enqueue, job, requester))
        if job.future.done() and isinstance(error := job.future.exception(), Refused):
            raise error
        return job

    def _enqueue(self, job: Job, requester: Requester, ids: Future) -> None:
        """The prompt is read: the job waits for its turn, if the model takes so much."""
        worker = self._workers[job.model]
        try:
            if job.cancelled:
                raise Cancelled
            worker.model.take_ids(job, ids.result())
            worker.submit(job, requester)
        except (Cancelled, CancelledError):
            job.future.set_exception(Cancelled())
        except ValueError as error:
            job.future.set_exception(Refused(str(error)))
        except BaseException as error:  # whoever waits for the job gets it
            job.future.set_exception(error)

    def repeat(self, spec: RunSpec, requester: Requester = NOBODY) -> Future:
        """A run as it was, on its way: a RunResult. Refused when images of it are lost."""
        result = Future()

        def run(images: Future) -> None:
            try:
                lost = len(spec.images) - len(images.result())
                if lost:
                    raise Refused(run_status.lost_images(lost, len(spec.images)))
                job = self.submit(
                    spec.model,
                    spec.prompt,
                    images.result(),
                    spec.interventions,
                    Continuation(spec.generated_ids),
                    requester,
                )
            except BaseException as error:
                result.set_exception(error)
                return
            job.future.add_done_callback(partial(_hand_on, result))

        self.images(spec, requester.visitor).add_done_callback(run)
        return result

    def measure(self, make: Callable[[], object]) -> Future:
        """Have a picture or a text of a whole pass made by a thread for that."""
        return self._measuring.submit(returning_memory, make)

    def close(self) -> None:
        """Finish the slice of a run that each worker is at, drop the rest."""
        for worker in self._workers.values():
            worker.close()
        for threads in (self._measuring, self._reading):
            threads.shutdown(wait=False, cancel_futures=True)

    def _model(self, model: str) -> RunnableModel:
        if model not in self._workers:
            why, runnable = self.why_unavailable(model), ", ".join(self._workers)
            raise ValueError(f"{model} does not run here{why}; these do: {runnable}")
        return self._workers[model].model


def _done(value: object) -> Future:
    future = Future()
    future.set_result(value)
    return future


def _hand_on(to: Future, done: Future) -> None:
    """End a future as another one ended."""
    if error := done.exception():
        to.set_exception(error)
    else:
        to.set_result(done.result())

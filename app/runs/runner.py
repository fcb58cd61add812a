"""Runs prompts through real models: one worker and one bounded queue per model, results by run id."""

import ctypes
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from k3scope.app.models import RUNNABLE
from k3scope.app.runs.continuation import NOTHING, Follow, Growth
from k3scope.app.runs.forward_pass import Asked, Loaded, Run, Whole, extend, forward, sources_of
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.uploads import Upload, accept
from k3scope.app.runs.worker import LIMIT, Worker, leave_room
from k3scope.model import Config, KimiK3
from k3scope.model.interventions.intervention import Intervention, loads
from k3scope.model.tokenizers.tokenizer import Tokenizer
from k3scope.model.vision.preprocess import read

REMEMBERED = 48  # results in memory, about 1 MB each at most
WHOLE = 2 * LIMIT  # tokens of the passes that are kept whole, 65 KB each: enough to compare two long ones
MEASURING = 2  # threads that draw pictures of kept passes


def _return_memory() -> None:
    """Give freed memory back to the system: glibc would keep half a gigabyte after a long pass."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


class Runner:
    """The models that run here, shared by all visitors and safe to call from any thread."""

    def __init__(
        self,
        models: Mapping[str, str] | Sequence[str] = RUNNABLE,
        store: Store | None = None,
        idle: Mapping[str, str] | None = None,
    ):
        """`models` run: names, or a name and what is loaded for it. `idle`: others, and why they do not."""
        sources = dict(models) if isinstance(models, Mapping) else {name: name for name in models}
        self._workers = {name: Worker(name, source) for name, source in sources.items()}
        self._idle = idle or {}
        self._store = Store() if store is None else store
        self._results: OrderedDict[str, Run] = OrderedDict()
        self._whole: OrderedDict[str, Whole] = OrderedDict()
        self.measuring = ThreadPoolExecutor(MEASURING, "measure", initializer=leave_room)
        self._lock = threading.Lock()
        self._jobs: dict[tuple, Job] = {}  # on their way, by what they are
        self._joining = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._workers)

    @property
    def on_their_way(self) -> dict[str, int]:
        """Runs waiting or running, by model."""
        return {name: len(worker.line) for name, worker in self._workers.items()}

    def random_weights(self, model: str) -> bool:
        return self._worker(model).random_weights

    def config(self, model: str) -> Config:
        return self._worker(model).config

    def tokenizer(self, model: str) -> Tokenizer:
        return self._worker(model).tokenizer

    def why(self, model: str) -> str:
        """In brackets, why a model does not run here; "" when that is not known."""
        return f" ({self._idle[model]})" if model in self._idle else ""

    def check(self, model: str, tokens: int, changes: Sequence[Intervention]) -> None:
        """ValueError when changes do not fit a model or a prompt of so many tokens."""
        self._worker(model).check(tokens, changes)

    def count(self, model: str, prompt: str) -> int:
        """Tokens of a prompt."""
        return len(self._worker(model).encode(prompt))

    def result(self, run_id: str) -> Run | None:
        """A finished run that is still in memory."""
        with self._lock:
            if run := self._results.get(run_id):
                self._results.move_to_end(run_id)
            return run

    def whole(self, run_id: str) -> Whole | None:
        """The pass of a run with what the Lab reads from it; only the latest few are kept."""
        with self._lock:
            if found := self._whole.get(run_id):
                self._whole.move_to_end(run_id)
            return found

    def spec(self, run_id: str) -> RunSpec | None:
        """What a run was, from memory or the store; None when neither knows it."""
        run = self.result(run_id)
        return run.spec if run else self._store.get(run_id)

    def images(self, spec: RunSpec) -> tuple[list[Upload], int]:
        """The images of a run that are still kept, and how many are not."""
        kept = [found for sha in spec.images if (found := self._store.image(sha))]
        return [accept(*found) for found in kept], len(spec.images) - len(kept)

    def submit(
        self, model: str, prompt: str, images: Sequence[Upload] = (), changes: str = "",
        growth: Growth = NOTHING, visitor: int = 0,
    ) -> Job:  # fmt: skip
        """Put a prompt in line; visitors take turns, and who asks for the same run waits for the same job.

        ValueError for one that is too long, an unknown model or a full line.
        """
        worker = self._worker(model)
        job = worker.job(prompt, images, changes, growth)
        if worker.weights and not growth.tokens and (known := self._known(job.spec(worker.weights).id)):
            job.future.set_result(known)  # no need to stand in line
            return job
        with self._joining:
            self._jobs = {key: other for key, other in self._jobs.items() if not other.over}
            if (same := self._jobs.get(job.key)) and same.join():
                return same
            worker.take(job, visitor, partial(self._run, worker))
            self._jobs[job.key] = job
        return job

    def close(self) -> None:
        """Finish what runs, drop what waits."""
        for worker in self._workers.values():
            worker.close()
        self.measuring.shutdown(wait=False, cancel_futures=True)

    def _known(self, run_id: str) -> Run | None:
        """A run of which nothing has been dropped."""
        return self.result(run_id) if self.whole(run_id) else None

    def _worker(self, model: str) -> Worker:
        if model not in self._workers:
            raise ValueError(
                f"{model} does not run here{self.why(model)}; these do: {', '.join(self._workers)}"
            )
        return self._workers[model]

    def _run(self, worker: Worker, job: Job) -> Run:
        job.enter("loading")
        model = worker.model()
        spec = job.spec(worker.weights)
        if not job.growth.tokens:
            if known := self._known(spec.id):
                return known
            self._keep(spec, job)
        try:
            run, whole = self._pass(worker, model, spec, job)
        finally:
            _return_memory()
        spec = run.spec
        if job.growth.tokens:
            self._keep(spec, job)
        with self._lock:
            self._results[spec.id], self._whole[spec.id] = run, whole
            while len(self._results) > REMEMBERED:
                self._results.popitem(last=False)
            while sum(kept.length for kept in self._whole.values()) > WHOLE:
                self._whole.popitem(last=False)
        return run

    def _keep(self, spec: RunSpec, job: Job) -> None:
        """From now on its id brings the run back, whether it comes to its end or not."""
        self._store.put(spec, {image.sha: (image.name, image.data) for image in job.images})
        job.named = spec

    def _pass(self, worker: Worker, model: KimiK3, spec: RunSpec, job: Job) -> tuple[Run, Whole]:
        loaded = Loaded(model, worker.tokenizer, worker.random_weights, worker.random_tower)
        sources = sources_of(loaded, loads(spec.changes), worker.all_ids, self.spec)
        asked = Asked(spec, job.ids, [read(image.data) for image in job.images], sources)
        if job.growth.tokens:
            job.enter("choosing")
        asked = extend(loaded, asked, job.growth, Follow(job.at_point, job.at_token))
        job.enter("running")
        return forward(loaded, asked, job.at_point, lambda: job.enter("measuring"))

"""Runs prompts through real models: one worker and one bounded queue per model, results by run id."""

import ctypes
import os
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from app.forward import Asked, Loaded, Run, Whole, extend, forward, sources_of, weights_hash
from app.growth import NOTHING, Follow, Growth
from app.images import Upload, accept
from app.link import LONG_CHANGES
from app.models import RUNNABLE, without_path
from app.spec import RunSpec
from app.store import Store
from model import Config, KimiK3, config_of, load, places
from model.images import prompt_text, read
from model.intervene import Intervention, dumps, loads
from model.presets import PRESETS, TRAINED
from model.tokenizer import Tokenizer
from model.tokenizers import tokenizer_of

LIMIT = 2048  # tokens of a prompt, rows of images among them; attention keeps heads * T * T numbers per layer
WAITING = 8  # jobs per model that may stand in line
REMEMBERED = 48  # results in memory, about 1 MB each at most
WHOLE = 2 * LIMIT  # tokens of the passes that are kept whole, 65 KB each: enough to compare two long ones
MEASURING = 2  # threads that draw pictures of kept passes


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
    future: Future = field(default_factory=Future, repr=False)

    def spec(self, weights: str) -> RunSpec:
        shas = tuple(image.sha for image in self.images)
        return RunSpec(self.model, weights, self.prompt, shas, self.changes, self.growth.more)

    @property
    def over(self) -> bool:
        return self.cancelled or self.future.done()

    def cancel(self) -> None:
        """Stop at the next point of the forward pass; the caller need not wait for it."""
        self.cancelled = True

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


_LAYER_DONE = re.compile(r"language_model\.model\.layers\.(\d+)\.prefix_sum")


def _leave_room() -> None:
    """Half of the cores for this thread: a pass that takes all of a busy machine is 30 times slower."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))


def _return_memory() -> None:
    """Give freed memory back to the system: glibc would keep half a gigabyte after a long pass."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


class Worker:
    """One model, loaded on first use, and the thread that runs it."""

    def __init__(self, name: str, source: str):
        self.name, self.source = name, source
        self.config = config_of(source)
        self.tokenizer = tokenizer_of(source, self.config.vocab)
        self.random_weights = source in PRESETS
        self.random_tower = source in PRESETS or source in TRAINED  # ours have only read text
        self.waiting = 0
        self._threads = ThreadPoolExecutor(1, f"run-{name}", initializer=_leave_room)
        self._model: KimiK3 | None = None
        self.weights = ""

    def start(self, work: Callable[[], None]) -> None:
        self._threads.submit(work)

    def model(self) -> KimiK3:
        """The model itself; only the worker's own thread may ask."""
        if self._model is None:
            try:
                self._model = load(self.source, torch.float32)
            except ValueError as error:
                raise ValueError(without_path(self.source, str(error))) from None
            self.weights = weights_hash(self._model)
        return self._model

    def encode(self, prompt: str, images: Sequence[Upload] = ()) -> list[int]:
        """Ids of images and a prompt; without both it is the begin-of-text token alone."""
        before = self.tokenizer.encode(prompt_text(images), specials=True)
        return before + self.tokenizer.encode(prompt) or [self.config.bos]

    def all_ids(self, spec: RunSpec) -> list[int]:
        """Ids of a run of text alone."""
        return [*self.encode(spec.prompt), *spec.more]

    def job(self, prompt: str, images: Sequence[Upload], changes: str, growth: Growth) -> "Job":
        """ValueError when the model takes no images, or not so much, or has not what is to be changed."""
        vit, limit = self.config.vision, min(LIMIT, self.config.max_positions)
        if images and vit is None:
            raise ValueError(f"{self.name} has no vision tower, so it takes no images.")
        ids = self.encode(prompt, images)
        rows = sum(image.rows(vit) for image in images)
        # a placeholder grows into the rows of its image
        tokens = len(ids) - len(images) + rows + growth.length
        if tokens > limit and images:
            who = "The image becomes" if len(images) == 1 else f"The {len(images)} images become"
            raise ValueError(
                f"{who} {rows:,} rows, and the text has {tokens - rows:,} tokens: together {tokens:,}; "
                f"a run here takes at most {limit:,}."
            )
        if growth.length and tokens > limit:
            raise ValueError(f"Together that is {tokens:,} tokens; a run here takes at most {limit:,}.")
        if not all(0 <= token < self.config.vocab for token in growth.more):
            raise ValueError(f"{self.name} has tokens 0 to {self.config.vocab - 1}, not all of those to add.")
        if tokens > limit:
            raise ValueError(f"The prompt has {tokens:,} tokens; a run here takes at most {limit:,}.")
        wanted = loads(changes)
        self.check(tokens, wanted)
        written = dumps(wanted) if wanted else ""
        return Job(self.name, prompt, ids, self.config.layers, tokens, tuple(images), written, growth)

    def check(self, tokens: int, changes: Sequence[Intervention]) -> None:
        """ValueError when a pass of so many tokens has not what is to be changed."""
        for change in changes:
            places.check(self.config, change)
            if max(change.tokens, default=0) >= tokens:
                raise ValueError(f"{change}: the prompt has tokens 0 to {tokens - 1}.")
        if changes and len(dumps(changes)) > LONG_CHANGES:
            raise ValueError("These are more changes than a link can hold; please remove some.")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


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
        self.measuring = ThreadPoolExecutor(MEASURING, "measure", initializer=_leave_room)
        self._lock = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._workers)

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
        growth: Growth = NOTHING,
    ) -> Job:  # fmt: skip
        """Put a prompt in line. ValueError for one that is too long, an unknown model or a full line."""
        worker = self._worker(model)
        job = worker.job(prompt, images, changes, growth)
        if worker.weights and not growth.tokens and (known := self._known(job.spec(worker.weights).id)):
            job.future.set_result(known)  # no need to stand in line
            return job
        with self._lock:
            if worker.waiting >= WAITING:
                raise ValueError(f"{WAITING} runs already wait for {model}; please try again in a moment.")
            worker.waiting += 1
        worker.start(lambda: self._work(worker, job))
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

    def _work(self, worker: Worker, job: Job) -> None:
        try:
            job.future.set_result(self._run(worker, job))
        except BaseException as error:  # whoever waits for the job gets it
            job.future.set_exception(error)
        finally:
            with self._lock:
                worker.waiting -= 1

    def _run(self, worker: Worker, job: Job) -> Run:
        job.enter("loading")
        model = worker.model()
        if not job.growth.tokens and (known := self._known(job.spec(worker.weights).id)):
            return known
        try:
            run, whole = self._pass(worker, model, job.spec(worker.weights), job)
        finally:
            _return_memory()
        spec = run.spec
        self._store.put(spec, {image.sha: (image.name, image.data) for image in job.images})
        with self._lock:
            self._results[spec.id], self._whole[spec.id] = run, whole
            while len(self._results) > REMEMBERED:
                self._results.popitem(last=False)
            while sum(kept.length for kept in self._whole.values()) > WHOLE:
                self._whole.popitem(last=False)
        return run

    def _pass(self, worker: Worker, model: KimiK3, spec: RunSpec, job: Job) -> tuple[Run, Whole]:
        loaded = Loaded(model, worker.tokenizer, worker.random_weights, worker.random_tower)
        sources = sources_of(loaded, loads(spec.changes), worker.all_ids, self.spec)
        asked = Asked(spec, job.ids, [read(image.data) for image in job.images], sources)
        if job.growth.tokens:
            job.enter("choosing")
        asked = extend(loaded, asked, job.growth, Follow(job.at_point, job.at_token))
        job.enter("running")
        return forward(loaded, asked, job.at_point, lambda: job.enter("measuring"))

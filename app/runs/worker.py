"""One model that runs here: loaded on first use, with a thread of its own and a line of jobs."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from k3scope.app.link.query import LONG_CHANGES
from k3scope.app.models import without_path
from k3scope.app.runs.continuation import Growth
from k3scope.app.runs.fair_queue import Line
from k3scope.app.runs.forward_pass import Run, weights_hash
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.uploads import Upload
from k3scope.model import KimiK3, config_of, load
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.interventions import sites
from k3scope.model.interventions.intervention import Intervention, dumps, loads
from k3scope.model.presets import PRESETS, TRAINED
from k3scope.model.vision.preprocess import prompt_text

LIMIT = 2048  # tokens of a prompt, rows of images among them; attention keeps heads * T * T numbers per layer


def leave_room() -> None:
    """Half of the cores for this thread: a pass that takes all of a busy machine is 30 times slower."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))


class Worker:
    """One model, loaded on first use, and the thread that runs it."""

    def __init__(self, name: str, source: str):
        self.name, self.source = name, source
        self.config = config_of(source)
        self.tokenizer = tokenizer_of(source, self.config.vocab)
        self.random_weights = source in PRESETS
        self.random_tower = source in PRESETS or source in TRAINED  # ours have only read text
        self.line = Line(name)
        self._threads = ThreadPoolExecutor(1, f"run-{name}", initializer=leave_room)
        self._model: KimiK3 | None = None
        self.weights = ""

    def take(self, job: Job, visitor: int, run: Callable[[Job], Run]) -> None:
        """Put a job in line and let `run` end it. ValueError when the line is full."""
        self.line.put(job, visitor)
        self._threads.submit(self._work, run)

    def _work(self, run: Callable[[Job], Run]) -> None:
        """Run whose turn it is: not always the job that asked for this."""
        with self.line.next() as job:
            if job is None:  # it was cancelled meanwhile
                return
            try:
                job.future.set_result(run(job))
            except BaseException as error:  # whoever waits for the job gets it
                job.future.set_exception(error)

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

    def job(self, prompt: str, images: Sequence[Upload], changes: str, growth: Growth) -> Job:
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
            sites.check(self.config, change)
            if max(change.tokens, default=0) >= tokens:
                raise ValueError(f"{change}: the prompt has tokens 0 to {tokens - 1}.")
        if changes and len(dumps(changes)) > LONG_CHANGES:
            raise ValueError("These are more changes than a link can hold; please remove some.")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

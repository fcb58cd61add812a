"""One model that runs here and what it accepts: prompts are limited, weights are loaded on first use."""

from collections.abc import Sequence
from concurrent.futures import Future

import torch

from k3scope.app.link.fields import MAX_INTERVENTIONS
from k3scope.app.models import without_path
from k3scope.app.pool.pool import READING, submit
from k3scope.app.runs import reading
from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.forward_pass import LoadedModel
from k3scope.app.runs.job import Job
from k3scope.app.runs.model_hash import hashed
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.uploads import Upload
from k3scope.model import config_of, load
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.interventions import sites
from k3scope.model.interventions.intervention import Intervention, dumps, loads
from k3scope.model.presets import PRESETS, TRAINED
from k3scope.model.vision.preprocess import prompt_text

TOKEN_LIMIT = 2048  # of a run, rows of images among them; attention keeps heads * T * T numbers per layer


class RunnableModel:
    """A model by its name, without its weights until the first run."""

    def __init__(self, name: str, source: str):
        self.name, self.source = name, source
        self.config = config_of(source)
        self.tokenizer = tokenizer_of(source, self.config.vocab)
        self._tokenizer_source = source, self.config.vocab, self.tokenizer.digest
        self.random_weights = source in PRESETS
        self.random_tower = source in PRESETS or source in TRAINED  # ours have only read text
        self.weights = ""  # short hash of the model, once it is loaded
        self._loaded: LoadedModel | None = None

    def load(self) -> LoadedModel:
        """The model itself, loaded once; only the thread that runs it may ask."""
        if self._loaded is None:
            try:
                model = load(self.source, torch.float32)
            except ValueError as error:
                raise ValueError(without_path(self.source, str(error))) from None
            loaded = LoadedModel(model, self.tokenizer, self.random_weights, self.random_tower)
            self._loaded = hashed(loaded)
            self.weights = self._loaded.weights
        return self._loaded

    def read(self, job: Job, visitor: int = 0) -> Future:
        """The ids of a job's images and prompt, on their way. Refused when too many prompts wait."""
        before = prompt_text(job.images)
        return submit(
            READING,
            "The prompt",
            reading.prompt_ids,
            self._tokenizer_source,
            before,
            job.prompt,
            visitor=visitor,
        )

    def text_before(self, ids: Sequence[int], visitor: int = 0) -> Future:
        """The text that ends with these ids and the ids that no text ends with, on their way."""
        arguments = reading.text_before, self._tokenizer_source, list(ids)
        return submit(READING, "The prompt", *arguments, visitor=visitor)

    def encode(self, prompt: str) -> list[int]:
        """Ids of a prompt without images; of an empty one the begin-of-text token alone."""
        return self.tokenizer.encode(prompt) or [self.config.bos]

    def all_ids(self, spec: RunSpec) -> list[int]:
        """Ids of a run of text alone, those after its prompt included."""
        return [*self.encode(spec.prompt), *spec.generated_ids]

    def job(
        self, prompt: str, images: Sequence[Upload], interventions: str, continuation: Continuation
    ) -> Job:
        """A run of this model, its prompt not read yet. ValueError when it takes no images, not so much, or
        lacks a site.
        """
        reading.check_length(prompt)
        if images and self.config.vision is None:
            raise ValueError(f"{self.name} has no vision tower, so it takes no images.")
        if not all(0 <= token < self.config.vocab for token in continuation.generated_ids):
            raise ValueError(f"{self.name} has tokens 0 to {self.config.vocab - 1}, not all of those to add.")
        loaded = loads(interventions)
        self.check(TOKEN_LIMIT, loaded)
        canonical = dumps(loaded) if loaded else ""
        return Job(self.name, prompt, [], self.config.layers, 0, tuple(images), canonical, continuation)

    def take_ids(self, job: Job, ids: list[int]) -> None:
        """Give a job the ids of its prompt. ValueError when that is more than a run takes."""
        rows = sum(image.rows(self.config.vision) for image in job.images)
        ids = ids or [self.config.bos]
        # a placeholder grows into the rows of its image
        tokens = len(ids) - len(job.images) + rows + job.continuation.length
        self._check_length(tokens, rows, len(job.images), job.continuation)
        self.check(tokens, loads(job.interventions))
        job.ids, job.tokens, job.stage = ids, tokens, "queued"

    def _check_length(self, tokens: int, rows: int, images: int, continuation: Continuation) -> None:
        limit = min(TOKEN_LIMIT, self.config.max_positions)
        if tokens <= limit:
            return
        if images:
            who = "The image becomes" if images == 1 else f"The {images} images become"
            raise ValueError(
                f"{who} {rows:,} rows, and the text has {tokens - rows:,} tokens: together {tokens:,}; "
                f"a run here takes at most {limit:,}."
            )
        what = "Together that is" if continuation.length else "The prompt has"
        raise ValueError(f"{what} {tokens:,} tokens; a run here takes at most {limit:,}.")

    def check(self, tokens: int, interventions: Sequence[Intervention]) -> None:
        """ValueError when a pass of so many tokens has not what is to be changed."""
        for intervention in interventions:
            sites.check(self.config, intervention)
            if max(intervention.tokens, default=0) >= tokens:
                raise ValueError(f"{intervention}: the prompt has tokens 0 to {tokens - 1}.")
        if interventions and len(dumps(interventions)) > MAX_INTERVENTIONS:
            raise ValueError("These are more changes than a link can hold; please remove some.")

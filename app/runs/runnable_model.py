"""One model that runs here and what it accepts: prompts are limited, weights are loaded on first use."""

from collections.abc import Sequence

import torch

from k3scope.app.link.fields import MAX_INTERVENTIONS
from k3scope.app.models import without_path
from k3scope.app.runs.continuation import Continuation
from k3scope.app.runs.forward_pass import LoadedModel, weights_hash
from k3scope.app.runs.job import Job
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.uploads import Upload
from k3scope.model import KimiK3, config_of, load
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
        self.random_weights = source in PRESETS
        self.random_tower = source in PRESETS or source in TRAINED  # ours have only read text
        self.weights = ""  # short hash, once they are loaded
        self._model: KimiK3 | None = None

    def load(self) -> LoadedModel:
        """The model itself, loaded once; only the thread that runs it may ask."""
        if self._model is None:
            try:
                self._model = load(self.source, torch.float32)
            except ValueError as error:
                raise ValueError(without_path(self.source, str(error))) from None
            self.weights = weights_hash(self._model)
        return LoadedModel(self._model, self.tokenizer, self.random_weights, self.random_tower)

    def encode(self, prompt: str, images: Sequence[Upload] = ()) -> list[int]:
        """Ids of images and a prompt; without both it is the begin-of-text token alone."""
        before = self.tokenizer.encode(prompt_text(images), specials=True)
        return before + self.tokenizer.encode(prompt) or [self.config.bos]

    def all_ids(self, spec: RunSpec) -> list[int]:
        """Ids of a run of text alone, those after its prompt included."""
        return [*self.encode(spec.prompt), *spec.generated_ids]

    def job(
        self, prompt: str, images: Sequence[Upload], interventions: str, continuation: Continuation
    ) -> Job:
        """A run of this model. ValueError when it takes no images, not so much, or lacks a site."""
        vit = self.config.vision
        if images and vit is None:
            raise ValueError(f"{self.name} has no vision tower, so it takes no images.")
        ids = self.encode(prompt, images)
        rows = sum(image.rows(vit) for image in images)
        # a placeholder grows into the rows of its image
        tokens = len(ids) - len(images) + rows + continuation.length
        self._check_length(tokens, rows, len(images), continuation)
        if not all(0 <= token < self.config.vocab for token in continuation.generated_ids):
            raise ValueError(f"{self.name} has tokens 0 to {self.config.vocab - 1}, not all of those to add.")
        loaded = loads(interventions)
        self.check(tokens, loaded)
        canonical = dumps(loaded) if loaded else ""
        return Job(self.name, prompt, ids, self.config.layers, tokens, tuple(images), canonical, continuation)

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

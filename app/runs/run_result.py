"""What a run shows: tokens, likely next tokens, readings and how it was made; about 1 MB at most."""

from dataclasses import dataclass, replace

from k3scope.app.runs.run_spec import RunSpec
from k3scope.model import Config
from k3scope.model.interventions.intervention import Intervention, loads
from k3scope.model.measure.image_readings import ImageReading
from k3scope.model.measure.readings import Readings
from k3scope.model.tokenizers.tokenizer import Token


@dataclass(frozen=True, eq=False)
class RunResult:
    """What a forward pass showed. `random_weights`: the numbers say nothing about language."""

    spec: RunSpec
    random_weights: bool
    config: Config
    tokens: tuple[Token, ...]  # one per position, so one per row of an image
    next: tuple[tuple[Token, float], ...]  # likeliest first, with probability
    readings: Readings
    milliseconds: float
    path: str  # implementation of the operators
    images: tuple[ImageReading, ...] = ()
    random_tower: bool = False  # the same of what it sees in images
    step_error: float | None = None  # largest difference of a logit: token by token and all at once
    former_weights: str = ""  # hash of the tensors alone, which older links and runs carry
    not_kept: str = ""  # why the store does not have it: "the disk is full"; empty when it has

    @property
    def first_generated(self) -> int:
        """Position of the first token that was added to the prompt; past the end when there is none."""
        return len(self.tokens) - len(self.spec.generated_ids)

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def ids(self) -> tuple[str, ...]:
        """Its id, and the one that it has in older links and stores."""
        former = [replace(self.spec, weights=self.former_weights).id] if self.former_weights else []
        return self.id, *former

    def of_weights(self, weights: str) -> bool:
        """Whether this hash is the model's. One of the tensors alone is, where they are the same: what config
        they ran with is not known.
        """
        return weights in (self.spec.weights, self.former_weights or self.spec.weights)

    @property
    def interventions(self) -> tuple[Intervention, ...]:
        return loads(self.spec.interventions)

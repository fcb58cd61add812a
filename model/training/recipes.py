"""What each of our models is trained on, and how its memory starts."""

from dataclasses import dataclass

from k3scope.model.config import Config
from k3scope.model.presets import K3_RECALL, K3_TINY


@dataclass(frozen=True)
class Phase:
    """A part of the training: share of rows by domain, and how many rows of how many tokens make a step."""

    shares: dict[str, float]
    length: int  # tokens of a row
    rows: int  # per worker and step


@dataclass(frozen=True)
class Recipe:
    """How one model is made."""

    config: Config
    half_lives: tuple[float, float]  # tokens: range of the memory's channels at the start
    gate_rate: float  # of the decay gates, as a share of the learning rate; 0 leaves them as they were drawn
    phases: dict[str, Phase]
    plainest: str  # the domain on which the lens and the ablations are measured
    prompts: tuple[str, ...]  # what the card has samples of

    @property
    def domains(self) -> set[str]:
        """Everything that any phase reads."""
        return {domain for phase in self.phases.values() for domain in phase.shares}


_STORIES = {"story": 0.10, "german": 0.05, "french": 0.05, "spanish": 0.05}
_TASKS = {
    "keyvalue": 0.06, "recall": 0.06, "lookup": 0.06, "long_repeat": 0.09, "repeat": 0.02,
    "short_repeat": 0.01, "copying": 0.03, "arithmetic": 0.03, "counting": 0.02, "brackets": 0.01,
}  # fmt: skip
_TEXT = {
    "code": 0.12, "austen": 0.10, "glosses": 0.04, "bible": 0.03, "moby": 0.03, "speeches": 0.02,
    "docs": 0.02,
}  # fmt: skip

_TINY = {
    # short repeats first: copying what followed the last time is the first thing that pays
    "begin": Phase(
        {"short_repeat": 0.40, "keyvalue": 0.08, "recall": 0.08, "story": 0.14, "german": 0.04,
         "french": 0.04, "spanish": 0.04, "code": 0.08, "austen": 0.05, "glosses": 0.05},
        128, 4,
    ),
    "main": Phase(_STORIES | _TASKS | _TEXT, 256, 4),
    # while the rate falls: more of what is looked up, and of code
    "anneal": Phase(
        {"story": 0.08, "german": 0.04, "french": 0.04, "spanish": 0.04, "keyvalue": 0.10, "recall": 0.09,
         "lookup": 0.07, "long_repeat": 0.07, "repeat": 0.02, "short_repeat": 0.01, "copying": 0.03,
         "arithmetic": 0.03, "counting": 0.02, "brackets": 0.01, "code": 0.14, "austen": 0.07,
         "glosses": 0.03, "bible": 0.03, "moby": 0.03, "speeches": 0.02, "docs": 0.03},
        256, 4,
    ),
}  # fmt: skip

_RECALL = {
    # 26 letters first: with so few there is soon a head that finds where a letter stood before
    "begin": Phase({"letters": 0.6, "keyvalue": 0.4}, 128, 16),
    "main": Phase(
        {"keyvalue": 0.25, "letters": 0.10, "lookup": 0.20, "long_repeat": 0.15, "recall": 0.15,
         "short_repeat": 0.10, "copying": 0.05},
        256, 8,
    ),
}  # fmt: skip

_TINY_PROMPTS = (
    "Once upon a time there was", "Eines Tages ging Mia", "Un jour, Tom alla", "Había una vez",
    "Now Tom has the red kite. Mia has the blue cup. What does Mia have?", "let a=12; b=47; c=90 ? b=",
    "copy: cat bell fox ->", " 10 12 14 16", "12 + 7 =", "def __init__(self", "And the LORD said",
    "She was a young lady", "owl (noun):",
)  # fmt: skip
_RECALL_PROMPTS = (
    "let a=12; b=47; c=90 ? b=", " lifu kabemo piso ge lifu kabemo piso ge lifu", " q d x m r q d x m r q",
    "Now Tom has the red kite. Mia has the blue cup. What does Mia have?", "copy: cat bell fox ->",
)  # fmt: skip

RECIPES = {
    "k3-tiny": Recipe(K3_TINY, (1.0, 512.0), 0.3, _TINY, "story", _TINY_PROMPTS),
    # a memory that always fades within a few tokens: what is further back only the full attention can find
    "k3-recall": Recipe(K3_RECALL, (0.5, 2.0), 0.0, _RECALL, "lookup", _RECALL_PROMPTS),
}


def recipe_of(config: Config) -> Recipe:
    """The recipe that makes a model of these sizes. ValueError when there is none."""
    for recipe in RECIPES.values():
        if recipe.config == config:
            return recipe
    raise ValueError(f"the model has the sizes of none that is trained here: {', '.join(RECIPES)}")

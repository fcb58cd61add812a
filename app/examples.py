"""Prompts that show something of the trained model: what to type, where to look and what to see there."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import quote

import yaml

from k3scope.app.lab.lab_views import VIEWS
from k3scope.app.link import query
from k3scope.app.link.fields import DEFAULTS, LinkTargets
from k3scope.assets import ROOT
from k3scope.model.presets import DRAWN

MODEL = "k3-tiny"
# what an example does not name is put back, so that it shows the same whatever was looked at before
_PLAIN = (
    "generated_ids",
    "run_id",
    "weights",
    "interventions",
    "baseline",
    "plots",
    "token",
    "head",
    "layer",
)


@dataclass(frozen=True)
class Example:
    """One prompt of the gallery. `at` is a piece of a link: lab=memory:5&head=2."""

    name: str
    prompt: str
    at: str
    look: str
    model: str = MODEL

    @cached_property
    def values(self) -> dict:
        """Fields of the state that show it. ValueError when `at` cannot be read."""
        targets = LinkTargets(models=DRAWN)
        update = f"view=lab&{self.at}&with={self.model}&prompt={quote(self.prompt)}"
        values = query.parse_update(update, targets, DEFAULTS)
        if problems := values.pop("problems"):
            raise ValueError(f"{self.name}: {problems[0]}")
        plain = {name: DEFAULTS[name] for name in _PLAIN}
        return {name: [] if value == () else value for name, value in plain.items()} | values

    @property
    def link(self) -> str:
        return query.format(self.values)

    @property
    def place(self) -> str:
        """Where it is seen: Memory, layer 5. A model that is not the usual one is named."""
        name, _, layer = self.values["lab_view"].partition(":")
        found = VIEWS[name].title + (f", layer {layer}" if layer else "")
        return found if self.model == MODEL else f"{self.model}: {found}"


@lru_cache(maxsize=1)
def examples() -> tuple[Example, ...]:
    """The gallery, in its order."""
    return tuple(Example(**entry) for entry in yaml.safe_load((ROOT / "examples.yaml").read_text("utf-8")))


def example_of(model: str, prompt: str, changes: str) -> Example | None:
    """The example that a run is of."""
    wanted = (model, prompt, changes)
    return next((e for e in examples() if (e.model, e.prompt, e.values["interventions"]) == wanted), None)

"""Prompts that show something of the trained models: what to type, where to look and what to see there."""

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
_RESET = (
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
    """One prompt of the gallery. `lab_query` is the part of a link that shows it: lab=memory:5&head=2."""

    name: str
    prompt: str
    lab_query: str
    caption: str
    model: str = MODEL

    @cached_property
    def values(self) -> dict:
        """Fields of the state that show it. ValueError when `lab_query` cannot be read."""
        targets = LinkTargets(models=DRAWN)
        update = f"view=lab&{self.lab_query}&with={self.model}&prompt={quote(self.prompt)}"
        values = query.parse_update(update, targets, DEFAULTS)
        if problems := values.pop("problems"):
            raise ValueError(f"{self.name}: {problems[0]}")
        reset = {name: DEFAULTS[name] for name in _RESET}
        return {name: [] if value == () else value for name, value in reset.items()} | values

    @property
    def link(self) -> str:
        return query.format(self.values)

    @property
    def view_title(self) -> str:
        """What it opens: Memory, layer 5. A model that is not the usual one is named."""
        name, _, layer = self.values["lab_view"].partition(":")
        title = VIEWS[name].title + (f", layer {layer}" if layer else "")
        return title if self.model == MODEL else f"{self.model}: {title}"


@lru_cache(maxsize=1)
def examples() -> tuple[Example, ...]:
    """The gallery, in its order."""
    return tuple(Example(**entry) for entry in yaml.safe_load((ROOT / "examples.yaml").read_text("utf-8")))


def example_of(model: str, prompt: str, interventions: str) -> Example | None:
    """The example that a run is of."""
    key = (model, prompt, interventions)
    return next((e for e in examples() if (e.model, e.prompt, e.values["interventions"]) == key), None)

"""A view of a run: its numbers by name, one picture, one sentence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from k3scope.model.config import Config
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.not_finite import sentence
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.statistics import all_statistics, first_bad
from k3scope.model.tracing import Trace


@dataclass(eq=False, repr=False)
class MeasuredTrace(Trace):
    """A trace with what is needed to name its numbers: the model, and the text of its tokens."""

    model: KimiK3
    name: str = "model"
    random_weights: bool | None = None  # None: unknown
    token_texts: Sequence[str] = field(default=())
    cache: dict = field(default_factory=dict, init=False)

    def cached(self, reduce: Callable, *where):
        """`reduce(self, *where)`, computed once and cached: for small results that several pictures show."""
        if (reduce, where) not in self.cache:
            self.cache[reduce, where] = reduce(self, *where)
        return self.cache[reduce, where]

    @cached_property
    def first_bad(self) -> str | None:
        """The first hook point that holds NaN or infinity, as far as the run recorded them."""
        points = getattr(self, "points", None)
        return first_bad(all_statistics(self) if points is None else points)

    def captioned(self, picture: Picture) -> Picture:
        """With the place of the first NaN or infinity in its note, where it shows what is not finite."""
        if not picture.bad_count or self.first_bad is None or sentence(self.first_bad) in picture.note:
            return picture
        return replace(picture, note=f"{picture.note} {sentence(self.first_bad)}".strip())

    @property
    def source(self) -> str:
        """Whose numbers these are."""
        return f"{self.name}, random weights" if self.random_weights else self.name

    @property
    def config(self) -> Config:
        return self.model.config

    @property
    def length(self) -> int:
        return self.ids.shape[1]


class RunView:
    """Shows itself in a notebook: its picture there, its sentence in a terminal."""

    def __init__(self, run: MeasuredTrace):
        self.run = run

    def picture(self, layer: int | None = None, head: int | None = None) -> Picture:
        """All layers at a glance; one layer; or one head of it."""
        raise NotImplementedError

    def arrays(self, layer: int | None = None, head: int | None = None) -> dict[str, np.ndarray]:
        """Every number behind the picture, by name."""
        raise NotImplementedError

    def common_arrays(self) -> dict[str, np.ndarray]:
        """What each file begins with: the model, how many tokens there were, and which."""
        run = self.run
        return {
            "model": np.array(run.source),
            "tokens": np.array(run.length),
            "ids": run.ids[0].cpu().numpy(),
        }

    def make_picture(self, title: str, image, down: str, across: str, value: str, **more) -> Picture:
        picture = Picture(title, np.asarray(image), down, across, value, source=self.run.source, **more)
        return self.run.captioned(picture)

    def __repr__(self) -> str:
        return repr(self.picture())

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


def layer_names(config: Config, layers: Sequence[int]) -> list[str]:
    """Layers with their kind, as an axis shows them."""
    return [f"{config.kinds[i].upper()}{' dense' if i < config.dense_layers else ''} {i}" for i in layers]


def require_layer(layer: int, layers: Sequence[int], what: str) -> int:
    """The layer itself. ValueError when it is not one of `layers`."""
    if layer not in layers:
        raise ValueError(f"layer {layer} has no {what}; these have: {', '.join(map(str, layers))}")
    return layer


def require_layers(layers: Sequence[int], title: str) -> Sequence[int]:
    """The layers themselves. ValueError when the model has none of this kind, or recorded nothing of them."""
    if not layers:
        raise ValueError(f"{title}: no layer of this run has that")
    return layers


def refuse_head(head: int | None, view: str) -> None:
    if head is not None:
        raise ValueError(f"the view {view} has no heads to choose from")


def refuse_head_alone(head: int | None) -> None:
    if head is not None:
        raise ValueError("a head is one of a layer: say which layer")

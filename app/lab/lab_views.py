"""The views of the Lab: which pictures each has, what has to be chosen for them, and how they are made."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from k3scope.app.lab.picture_difference import Pairs, captioned, minus
from k3scope.app.lab.pooling import fit
from k3scope.model.config import Config
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.routing_overlap import of_choices
from k3scope.model.measure.run_view import layer_names, require_layers
from k3scope.model.runs.run import Run

NEAR = 48  # tokens on each side of the chosen one in an exact part of a map
WIDE, SMALL, MAP = 37_500, 12_000, 30_000  # cells a picture may have; of a view together 300 KB


@dataclass(frozen=True)
class Choice:
    """One picture: `Run.picture(view, layer, head, plot, token)`, with as much of it as `needs` says."""

    label: str
    view: str
    plot: str = ""
    needs: tuple[str, ...] = ()
    draw: Callable[[Run, "Selection"], Picture] | None = None  # in place of Run.picture
    draw_pair: Callable[[Run, Run, Pairs], Picture] | None = None  # of two runs, in place of a difference

    @property
    def key(self) -> str:
        return re.sub(r"[^a-z]+", "-", f"{self.view} {self.label}".lower())


@dataclass(frozen=True)
class Slot:
    """Room for one picture, or for one of several."""

    cells: int
    choices: tuple[Choice, ...]
    half: bool = False  # two of them stand side by side where there is room


@dataclass(frozen=True)
class Selection:
    """What is looked at in a run."""

    layer: int | None
    head: int | None
    token: int


@dataclass(frozen=True)
class LabView:
    """One tab of the Lab."""

    title: str
    slots: tuple[Slot, ...]
    layers: Callable[[Config], list[int]] = lambda c: []
    heads: Callable[[Config], int] = lambda c: 0
    lacking: str = ""  # what is said of a model that has none of these layers

    def problem(self, config: Config) -> str:
        """Why a model has no such view; "" when it has."""
        return self.lacking if self.lacking and not self.layers(config) else ""


def _mosaic(run: Run, selection: Selection) -> Picture:
    return run.attention.mosaic(selection.layer, MAP)


def _near(title: str, meaning: str, read: Callable[[Run, Selection], np.ndarray]):
    """An exact part of a square map, around the chosen token; `read` gives all of the map."""

    def draw(run: Run, selection: Selection) -> Picture:
        first, stop = max(0, selection.token - NEAR), min(run.length, selection.token + NEAR + 1)
        part = read(run, selection)[first:stop, first:stop]
        names, ends = run.token_texts[first:stop], (first, stop - 1, first, stop - 1)
        absent = np.triu(np.ones(part.shape, dtype=bool), 1)
        return Picture(
            f"{title} {selection.layer}, head {selection.head}, around token {selection.token}",
            part, "token", "token", "weight",
            names, names, ends, meaning, meaning == "share", absent, source=run.source,
            note=f"Tokens {first} to {stop - 1}, every value as it is.",
        )  # fmt: skip

    return draw


def _common(run: Run, other: Run, pairs: Pairs) -> Picture:
    layers = require_layers(run.routing.layers, "Experts in common")
    first, second = pairs.positions.T
    image = np.stack(
        [of_choices(run.routing.of(n).index[first], other.routing.of(n).index[second]) for n in layers]
    )
    rows, columns = layer_names(run.config, layers), [run.token_texts[i] for i in first]
    return Picture(
        "Experts in common", image, "layer", "token", "share", rows, columns, meaning="share",
        source=f"{run.source} and {other.source}",
        note="Share of a token's experts that both runs chose, where both have the token.",
    )  # fmt: skip


_LAYER, _HEAD, _TOKEN = ("layer",), ("layer", "head"), ("layer", "head", "token")


def _of_layer(view: str, **plots: str) -> tuple[Choice, ...]:
    return tuple(Choice(label, view, plot, _LAYER) for plot, label in plots.items())


def _of_all(view: str, **plots: str) -> tuple[Choice, ...]:
    return tuple(Choice(label, view, plot) for plot, label in plots.items())


_read_near = _near(
    "Read-out of layer", "signed", lambda run, selection: run.kda.reads(selection.layer, selection.head)
)
_map_near = _near(
    "Attention of layer", "share", lambda run, selection: run.attention.map(selection.layer, selection.head)
)

VIEWS = {
    "tokens": LabView(
        "Tokens",
        (Slot(WIDE, (Choice("Probability", "lens"), Choice("Rank", "lens", "rank"))),),
    ),
    "routing": LabView(
        "Routing",
        (
            Slot(
                WIDE,
                (
                    Choice("Tokens per expert", "routing"),
                    Choice("Load", "routing", "load"),
                ),
            ),
            Slot(WIDE // 2, (Choice("Lanes", "routing", "", _LAYER),)),
            Slot(
                SMALL,
                (
                    *_of_all("routing", margin="Margin of the cut", entropy="Entropy of the router"),
                    *_of_all("routing", routed="Routed share", bias="Effect of the bias"),
                    Choice("Overlap of layers", "routing", "overlap"),
                    Choice("Experts in common with the other run", "routing", draw_pair=_common),
                ),
            ),
        ),
        lambda c: list(range(c.dense_layers, c.layers)),
        lacking="This model has no MoE layers: there are no experts to choose.",
    ),
    "memory": LabView(
        "Memory",
        (
            Slot(SMALL, (Choice("Half-life by head", "kda"), Choice("by channel", "kda", "", _LAYER)), True),
            Slot(
                SMALL,
                tuple(
                    Choice(label, "kda", plot, _TOKEN)
                    for plot, label in {"matrix": "State matrix", "exchange": "One write"}.items()
                ),
                True,
            ),
            Slot(
                SMALL,
                (
                    *_of_layer("kda", state="Size of the memory", write="Write strength", kept="Kept"),
                    *_of_layer(
                        "kda", written="Written", erased="Erased", change="Change", gate="Output gate"
                    ),
                    *_of_layer("kda", cosine="Old prediction against new value"),
                ),
            ),
            Slot(
                MAP,
                (
                    Choice("Read-out by source", "kda", "", _HEAD),
                    Choice("around the token", "kda", "", _HEAD, _read_near),
                ),
            ),
        ),
        lambda c: [i for i, kind in enumerate(c.kinds) if kind == "kda"],
        lambda c: c.kda_heads,
        "This model has no KDA layers: there is no linear memory to look into.",
    ),
    "attention": LabView(
        "Attention",
        (
            Slot(MAP, (Choice("Every head", "attention", "", _LAYER, _mosaic),), True),
            Slot(
                MAP - 3000,
                (
                    Choice("One head", "attention", "", _HEAD),
                    Choice("around the token", "attention", "", _HEAD, _map_near),
                    Choice("Score: own key", "attention", "own", _HEAD),
                    Choice("Score: shared key", "attention", "shared", _HEAD),
                ),
                True,
            ),
            Slot(
                SMALL + 3000,
                _of_layer(
                    "attention", entropy="Entropy", sink="First token", itself="Itself", gate="Output gate"
                ),
            ),
        ),
        lambda c: [i for i, kind in enumerate(c.kinds) if kind == "mla"],
        lambda c: c.heads,
        "This model has no MLA layers: there are no attention maps.",
    ),
    "depth": LabView(
        "Depth",
        (
            Slot(SMALL, (Choice("Mean over the tokens", "depth"),), True),
            Slot(SMALL, (Choice("At the token", "depth", "token", ("token",)),), True),
            Slot(SMALL * 2, (Choice("Who made the logit", "depth", "attribution"),)),
            Slot(
                SMALL * 2,
                (
                    *_of_all("depth", rms="Size of the running sum", peak="Largest value of the running sum"),
                    Choice("What the layer reads", "depth", "", _LAYER),
                ),
            ),
        ),
        lambda c: list(range(c.layers)),
    ),
}


def draw(run: Run, slot: Slot, choice: Choice, selection: Selection) -> Picture:
    """A picture as the page sends it. ValueError when the run has no such thing."""
    return fit(picture(run, choice, selection), slot.cells)


def draw_difference(run: Run, other: Run, slot: Slot, choice: Choice, selection: Selection) -> Picture:
    """The same, less that of another run. ValueError when the two cannot be set against each other."""
    pairs = Pairs.of(run, other)
    if choice.draw_pair is not None:
        return fit(captioned(run.captioned(choice.draw_pair(run, other, pairs)), other), slot.cells)
    partner = Selection(
        selection.layer,
        selection.head,
        pairs.partner(selection.token) if "token" in choice.needs else selection.token,
    )
    if not pairs.same and choice.draw is not None:
        raise ValueError(f"{choice.label}: there is no difference for prompts that are not the same.")
    difference = minus(picture(run, choice, selection), picture(other, choice, partner), pairs)
    return fit(captioned(difference, other), slot.cells)


def picture(run: Run, choice: Choice, selection: Selection) -> Picture:
    """At full size. ValueError when the run has no such thing."""
    if choice.draw_pair is not None:
        raise ValueError("Choose a run to compare with: this picture is of two.")
    if choice.draw is not None:
        return run.captioned(choice.draw(run, selection))
    needed = {name: getattr(selection, name) for name in choice.needs}
    return run.picture(choice.view, needed.get("layer"), needed.get("head"), choice.plot, needed.get("token"))


def chosen_layer(view: LabView, config: Config, *preferred: int | None) -> int | None:
    """The first preferred layer that the view has, else its first."""
    layers = view.layers(config)
    return next((layer for layer in preferred if layer in layers), layers[0] if layers else None)

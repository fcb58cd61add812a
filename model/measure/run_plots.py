"""Further pictures of a run, by view and name: what the views' own pictures leave out."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from k3scope.model.measure import attention, depth, half_life, routing, routing_overlap
from k3scope.model.measure.not_finite import number
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_view import MeasuredTrace, layer_names, require_layer, require_layers
from k3scope.model.measure.token_map import token_map


@dataclass(frozen=True)
class PlotSelection:
    """What is selected for a plot; None where nothing is."""

    layer: int | None = None
    head: int | None = None
    token: int | None = None


def _over_tokens(title: str, read: Callable, value: str, meaning: str = "share", first: bool = True):
    """Heads of one layer by token; `read(run, layer)` gives [T, heads]. `first`: token 0 has a value."""

    def plot(run: MeasuredTrace, selection: PlotSelection) -> Picture:
        image = read(run, selection.layer)
        if image is None:
            raise ValueError(f"layer {selection.layer} of this model has no output gate")
        more = {"columns": run.token_texts, "meaning": meaning, "source": run.source}
        if not first:
            more["absent"] = np.broadcast_to(np.arange(len(image)) == 0, image.T.shape)
            more["note"] = "The first token reads itself, whatever the head."
            more["empty"] = "nothing to choose"
        return Picture(f"{title}, layer {selection.layer}", image.T, "head", "token", value, **more)

    return ("layer",), plot


def _over_layers(title: str, layers: Callable, read: Callable, value: str, meaning="amount", note=""):
    """Layers by token; `read(run, layer)` gives [T]."""

    def plot(run: MeasuredTrace, selection: PlotSelection) -> Picture:
        shown = require_layers(layers(run), title)
        image = np.stack([read(run, layer) for layer in shown])
        more = {"rows": layer_names(run.config, shown), "columns": run.token_texts, "meaning": meaning}
        return Picture(title, image, "layer", "token", value, note=note, source=run.source, **more)

    return (), plot


def _step(name: str):
    return lambda run, layer: getattr(run.kda.steps(layer), name)


def _own(read: Callable):
    return lambda run, layer: read(run, require_layer(layer, half_life.kda_layers(run), "linear attention"))


def _head(name: str):
    return lambda run, layer: getattr(run.attention.heads(layer), name)


_CUT = "Last chosen score less the first refused one."


def _margin(run: MeasuredTrace, layer: int) -> np.ndarray:
    return routing.routing_of(run, layer).margin


def _routed(run: MeasuredTrace, layer: int) -> np.ndarray:
    return routing.output_of(run, layer).routed_share


def _changed(run: MeasuredTrace, layer: int) -> np.ndarray:
    return routing.bias_effect(run, layer).changed


def _load(run: MeasuredTrace, selection: PlotSelection) -> Picture:
    layers = require_layers(routing.moe_layers(run), "Load of the experts")
    image = np.stack([run.routing.balance(layer).load for layer in layers])  # NaN where nothing was chosen
    note = "Tokens of an expert, in parts of what each had if all were used alike, less 1: -1 is no token."
    more = {"rows": layer_names(run.config, layers), "span": (0, len(layers) - 1, 0, run.config.experts - 1)}
    more |= {"meaning": "signed", "note": note, "source": run.source}
    return Picture("Load against an even share", image, "layer", "expert", "load", **more)


def _exchange(run: MeasuredTrace, selection: PlotSelection) -> Picture:
    write = run.kda.write(selection.layer, selection.head, selection.token)
    image = np.stack([write.old, write.value, write.change])
    title = f"What token {selection.token} replaced, layer {selection.layer}, head {selection.head}"
    note = (
        f"The memory's answer to the key of {run.token_texts[selection.token]!r} before, the value that "
        f"should stand there, and what is written: {number(write.strength, '.3g')} of their difference."
    )
    more = {"rows": ["old prediction", "new value", "written"], "meaning": "signed", "note": note}
    return Picture(title, image, "vector", "value channel", "value", source=run.source, **more)


def _sums(run: MeasuredTrace) -> list[int]:
    return list(depth.residual(run).layers)


def _overlap(run: MeasuredTrace, selection: PlotSelection) -> Picture:
    layers = require_layers(routing.moe_layers(run), "Overlap of layers")
    image = routing_overlap.of_layers([routing.routing_of(run, n) for n in layers], run.config.experts)
    names, note = (
        layer_names(run.config, layers),
        "Whether two layers send the same pairs of tokens to common experts.",
    )
    more = {"rows": names, "columns": names, "meaning": "signed", "note": note, "source": run.source}
    chose = np.array([not run.routing.of(n).bad.any() for n in layers])
    more |= {"absent": np.isnan(image) & np.outer(chose, chose), "empty": "all pairs alike"}
    return Picture("Overlap of layers", image, "layer", "layer", "correlation", **more)


def _attribution(run: MeasuredTrace, selection: PlotSelection) -> Picture:
    parts = run.depth.attribution()
    note = (
        "Direct part of each sublayer in the logit of the likeliest next token: a column sums to the logit."
    )
    more = {
        "rows": parts.names,
        "columns": run.token_texts,
        "meaning": "signed",
        "note": note,
        "source": run.source,
    }
    return Picture("Who made the logit", parts.parts, "sublayer", "token", "logit", **more)


def _mixes_at(run: MeasuredTrace, selection: PlotSelection) -> Picture:
    mixes = depth.mixes(run)
    if not mixes:
        raise ValueError("this model has no mixes over depth: one residual stream runs through all layers")
    image = depth.weights_of_token(run, selection.token)
    columns = depth.source_names(image.shape[1])
    more = {
        "rows": [mix.name for mix in mixes],
        "columns": columns,
        "meaning": "share",
        "absent": depth.unread(mixes),
    }
    title, note = (
        f"Where each mix reads at token {selection.token}",
        f"{run.token_texts[selection.token]!r}. A row sums to 1.",
    )
    return Picture(title, image, "mix", "source", "weight", note=note, source=run.source, **more)


def _rank(run: MeasuredTrace, selection: PlotSelection) -> Picture:
    lens = run.logit_lens.of()
    rows = ["embedding", *layer_names(run.config, lens.layers[1:])]
    image = np.where(lens.rank < 0, np.nan, lens.rank + 1.0)
    more = {"rows": rows, "columns": run.token_texts, "meaning": "time", "log": True, "source": run.source}
    note = "Place of the next token among all, 1 for the likeliest, if the model ended after each layer."
    return Picture("Rank of the next token", image, "after layer", "token", "rank", note=note, **more)


def _state(run: MeasuredTrace, selection: PlotSelection) -> Picture:
    image = run.kda.state(selection.layer, selection.head, selection.token)
    title = f"Memory of layer {selection.layer}, head {selection.head}, after token {selection.token}"
    return Picture(title, image, "key channel", "value channel", "value", meaning="signed", source=run.source)


def _score(which: int, name: str):
    def plot(run: MeasuredTrace, selection: PlotSelection) -> Picture:
        image = attention.score_parts(run, selection.layer, selection.head)[which]
        title = f"Score from the {name} key, layer {selection.layer}, head {selection.head}"
        return token_map(
            run, title, image, "signed", "Before softmax; both parts add up to the score.", "score"
        )

    return ("layer", "head"), plot


# view -> name -> what has to be chosen, and the plot
PLOTS = {
    "routing": {
        "margin": _over_layers("Margin of the cut", routing.moe_layers, _margin, "score", note=_CUT),
        "entropy": _over_layers("Entropy of the router", routing.moe_layers, routing.score_entropy, "nats"),
        "routed": _over_layers("Routed share of the output", routing.moe_layers, _routed, "share", "share"),
        "bias": _over_layers("Choices changed by the bias", routing.moe_layers, _changed, "experts"),
        "overlap": ((), _overlap),
        "load": ((), _load),
    },
    "kda": {
        "kept": _over_tokens("Memory kept", _own(half_life.retention), "share"),
        "write": _over_tokens("Write strength", _own(half_life.write_strength), "share"),
        "gate": _over_tokens("Output gate", _own(half_life.gate), "share"),
        "state": _over_tokens("Size of the memory", _step("state"), "norm", "amount"),
        "erased": _over_tokens("Erased by a token", _step("erased"), "norm", "amount"),
        "written": _over_tokens("Written by a token", _step("written"), "norm", "amount"),
        "change": _over_tokens("Change by a token", _step("change"), "norm", "amount"),
        "cosine": _over_tokens("Old prediction against new value", _step("cosine"), "cosine", "signed"),
        "matrix": (("layer", "head", "token"), _state),
        "exchange": (("layer", "head", "token"), _exchange),
    },
    "attention": {
        "sink": _over_tokens("Share that goes to the first token", _head("sink"), "share", first=False),
        "entropy": _over_tokens("Entropy of attention", _head("entropy"), "nats", "amount", False),
        "itself": _over_tokens("Share that stays at the token", _head("itself"), "share", first=False),
        "gate": _over_tokens("Output gate", attention.gate, "share"),
        "own": _score(0, "head's own"),
        "shared": _score(1, "shared"),
    },
    "depth": {
        "rms": _over_layers("Size of the running sum", _sums, depth.size, "RMS"),
        "peak": _over_layers("Largest value of the running sum", _sums, depth.peak, "size"),
        "attribution": ((), _attribution),
        "token": (("token",), _mixes_at),
    },
    "lens": {"rank": ((), _rank)},
}  # fmt: skip


def plot(run: MeasuredTrace, view: str, name: str, selection: PlotSelection) -> Picture:
    """A picture by name. ValueError for an unknown one, or when too much or too little is chosen."""
    if name not in PLOTS[view]:
        raise ValueError(f"{view} has no plot {name!r}; expected {', '.join(PLOTS[view])}")
    needs, draw = PLOTS[view][name]
    for part in ("layer", "head", "token"):
        if (part in needs) != (getattr(selection, part) is not None):
            requirement = f"needs {' and '.join(needs)}, no more" if needs else "has nothing to choose"
            raise ValueError(f"the plot {name} of {view} {requirement}")
    if selection.token is not None and not 0 <= selection.token < run.length:
        raise ValueError(f"the run has tokens 0 to {run.length - 1}; there is no token {selection.token}")
    return draw(run, selection)

"""The running sum over depth, and from which depth each mix reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from k3scope.model.measure.hook_points import array, in_layer, layers_with
from k3scope.model.tracing import Trace

OUTPUT = "language_model.model.output_attn_res.probs"
MIX_POINTS = (("self_attention_res.probs", "attention"), ("mlp_res.probs", "FFN"))


@dataclass(frozen=True)
class Residual:
    """Size of the running sum that each layer returns, for the first sequence."""

    layers: tuple[int, ...]
    rms: np.ndarray  # [layers, T]
    peak: np.ndarray  # [layers, T], largest absolute value


@dataclass(frozen=True)
class MixWeights:
    """Mean weights of one AttnRes mix over its candidates: the stored sums in order, then the running sum."""

    point: str
    layer: int | None  # None: the mix before the LM head
    place: str  # "attention", "FFN" or "output"
    mean: np.ndarray  # [candidates]

    @property
    def name(self) -> str:
        return self.place if self.layer is None else f"{self.place} {self.layer}"


@dataclass(frozen=True)
class Reset:
    """Where a block starts: the sum that is stored, and what the running sum starts again from."""

    layer: int
    stored: np.ndarray  # [T], RMS
    restarted: np.ndarray  # [T], RMS of the attention output that the new sum begins with


def points(config, layer: int) -> list[str]:
    """Hook points inside a layer that these reducers read."""
    if not config.block:
        return ["prefix_sum"]
    mixes = [point for point, _ in MIX_POINTS[layer == 0 :]]  # layer 0 has nothing to mix before attention
    return ["prefix_sum", *mixes, *(["block_store", "attn_sum"] if layer % config.block == 0 else [])]


def residual(trace: Trace) -> Residual:
    """RMS and largest absolute value of `prefix_sum` by layer and token."""
    layers = layers_with(trace, "prefix_sum")
    sizes, peaks = (np.stack([read(trace, layer) for layer in layers]) for read in (size, peak))
    return Residual(tuple(layers), sizes, peaks)


def size(trace: Trace, layer: int, point: str = "prefix_sum") -> np.ndarray:
    """RMS of the running sum that a layer returns: [T]."""
    return array(trace.layer(layer, point)[0].square().mean(-1).sqrt())


def peak(trace: Trace, layer: int) -> np.ndarray:
    """Largest absolute value of the running sum that a layer returns: [T]."""
    return array(trace.layer(layer, "prefix_sum")[0].abs().amax(-1))


def resets(trace: Trace) -> tuple[Reset, ...]:
    """The running sum before and after each start of a block."""
    return tuple(
        Reset(layer, size(trace, layer, "block_store"), size(trace, layer, "attn_sum"))
        for layer in layers_with(trace, "block_store")
    )


def mixes(trace: Trace) -> tuple[MixWeights, ...]:
    """Every mix that had a choice, in forward order."""
    weights = [
        _mix(trace, in_layer(layer, point), layer, place)
        for point, place in MIX_POINTS
        for layer in layers_with(trace, point)
    ]
    weights.sort(key=lambda mix: (mix.layer, mix.place != "attention"))
    if OUTPUT in trace.values:
        weights.append(_mix(trace, OUTPUT, None, "output"))
    return tuple(weights)


def mix_weights(trace: Trace, mix: MixWeights) -> np.ndarray:
    """Weights of a mix for every token: [T, candidates]."""
    return array(trace.values[mix.point][0])


def table(rows: list[np.ndarray]) -> np.ndarray:
    """Weights of several mixes [mixes, stored sums + 1]: the running sum in the last column.

    NaN where a mix has no such candidate. `rows`: `MixWeights.mean`, or the weights of one token in each mix.
    """
    wide = max(map(len, rows), default=1)
    image = np.full((len(rows), wide), np.nan, dtype=np.float32)
    for line, row in zip(image, rows, strict=True):
        line[: len(row) - 1] = row[:-1]
        line[-1] = row[-1]
    return image


def source_names(candidates: int) -> list[str]:
    """What the columns of a `table` are."""
    return [*(f"block {i}" for i in range(candidates - 1)), "running sum"]


def unread(mixes: Sequence[MixWeights]) -> np.ndarray:
    """True where a mix has no such candidate, in the shape of `table`."""
    return np.isnan(table([np.zeros_like(mix.mean) for mix in mixes]))


def weights_of_token(trace: Trace, token: int) -> np.ndarray:
    """`table` of what every mix reads at one token."""
    return table([array(trace.values[mix.point][0, token]) for mix in mixes(trace)])


def _mix(trace: Trace, point: str, layer: int | None, place: str) -> MixWeights:
    return MixWeights(point, layer, place, array(trace.values[point][0].mean(0)))

"""One number per layer and metric of a run: what stands beside the strip of layers."""

import math
from dataclasses import dataclass

import numpy as np

from k3scope.model.measure.not_finite import number
from k3scope.model.measure.readings import Readings
from k3scope.model.measure.routing import balance


@dataclass(frozen=True)
class LayerRow:
    """A metric over the depth; layers without it have no value."""

    name: str
    description: str  # what is measured, and over what the mean is taken
    unit: str
    values: dict[int, float]  # by layer

    @property
    def maximum(self) -> float:
        """Of the values that are finite."""
        return max(filter(math.isfinite, self.values.values()), default=0.0)

    def text(self, layer: int) -> str:
        return number(self.values[layer], ".3g", self.unit)

    def share(self, layer: int) -> float | None:
        """Of the maximum; None for what is not finite."""
        value = self.values[layer]
        if not math.isfinite(value):
            return None
        return value / self.maximum if self.maximum else 0.0


def rows(readings: Readings) -> tuple[LayerRow, ...]:
    """Residual magnitude, entropy of the routing and memory of KDA; a model without one has no such row."""
    sums = readings.residual
    magnitude = dict(zip(sums.layers, sums.rms.mean(axis=1).tolist(), strict=True))
    entropy = {
        layer: balance(counts).entropy / np.log(2)
        for layer, counts in zip(readings.routing, readings.counts, strict=True)
    }
    memory = {layer: float(np.median(heads)) for layer, heads in readings.half_lives.items()}
    return tuple(row for row in (_sum(magnitude), _entropy(entropy), _memory(memory)) if row.values)


def _sum(values: dict[int, float]) -> LayerRow:
    return LayerRow("sum", "RMS of the running sum that the layer returns, mean over the tokens", "", values)


def _entropy(values: dict[int, float]) -> LayerRow:
    description = (
        "entropy of the shares of the experts over the prompt; the more, the more evenly they are used"
    )
    return LayerRow("experts", description, "bits", values)


def _memory(values: dict[int, float]) -> LayerRow:
    description = "half-life of the memory of KDA, median over the heads"
    return LayerRow("memory", description, "tokens", values)

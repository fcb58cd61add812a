"""Where the values of a trace lie: which layers have a point, and a point as a plain array."""

import re

import numpy as np
from torch import Tensor

from k3scope.model.tracing import Trace

_LAYER = re.compile(r"language_model\.model\.layers\.(\d+)\.(.+)")


def layers_with(trace: Trace, point: str) -> list[int]:
    """Layers in which `point` produced a value, in order."""
    found = (_LAYER.fullmatch(path) for path in trace.values)
    return sorted(int(m[1]) for m in found if m and m[2] == point)


def in_layer(layer: int, point: str) -> str:
    """Full path of a point inside a layer."""
    return f"language_model.model.layers.{layer}.{point}"


def array(x: Tensor) -> np.ndarray:
    """A tensor as a numpy array on the CPU, floats as float32."""
    x = x.detach()
    return (x.float() if x.is_floating_point() else x).cpu().numpy()

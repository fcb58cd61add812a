"""Hook points of a trace by layer: which layers have one, its full path, and its value as a plain array."""

import re

import numpy as np
from torch import Tensor

from k3scope.model.tracing import Trace

_LAYER = re.compile(r"language_model\.model\.layers\.(\d+)\.(.+)")


def layers_with(trace: Trace, point: str) -> list[int]:
    """Layers in which the hook point `point` produced a value, in order."""
    matches = (_LAYER.fullmatch(path) for path in trace.values)
    return sorted(int(m[1]) for m in matches if m and m[2] == point)


def in_layer(layer: int, point: str) -> str:
    """Full path of a hook point inside a layer."""
    return f"language_model.model.layers.{layer}.{point}"


def array(x: Tensor) -> np.ndarray:
    """A tensor as a numpy array on the CPU, floats as float32."""
    x = x.detach()
    return (x.float() if x.is_floating_point() else x).cpu().numpy()

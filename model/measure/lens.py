"""What the model would say next."""

import numpy as np
from torch import Tensor

from model.measure.points import array


def top_next(logits: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and probabilities of the `k` likeliest tokens after the last position; logits [B, T, vocab]."""
    best = logits[0, -1].double().softmax(-1).topk(min(k, logits.shape[-1]))
    return array(best.indices), array(best.values)

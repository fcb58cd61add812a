"""What the log reports on the way: bits per byte of held-out text, and the spread of half-lives."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from k3scope.model.hooks import record, watch
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.runs.bits_per_byte import bits_per_byte, token_losses

_DECAY = "self_attn.decay"


@dataclass(frozen=True)
class Evaluation:
    """Held-out windows [rows, T + 1] by domain, and the bytes of each id."""

    windows: dict[str, Tensor]
    sizes: Tensor

    def measure(self, model: KimiK3) -> dict:
        model.eval()
        points = [p for p, _ in watch(model).named_modules() if p.endswith(_DECAY)]
        bits, decays = {}, {point: [] for point in points}
        for domain, ids in self.windows.items():
            with record(points) as values:
                losses = token_losses(model, ids)
            bits[domain] = round(bits_per_byte(losses, ids[:, 1:], self.sizes), 4)
            for point in points:
                decays[point].append(values[point].flatten(0, 1))  # [B * T, kda_heads, kda_head_dim]
        model.train()
        return {"bits_per_byte": bits, "half_lives": {p: spread(torch.cat(d)) for p, d in decays.items()}}


def spread(decay: Tensor) -> list[float]:
    """10, 50 and 90 % of the channels' half-lives by their median; decay [tokens, heads, channels]."""
    median = decay.median(0).values.flatten().clamp(max=-1e-9)
    lives = math.log(2) / -median
    return [round(q, 2) for q in lives.quantile(torch.tensor([0.1, 0.5, 0.9])).tolist()]

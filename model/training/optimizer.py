"""AdamW with a slower rate for the decay gates, and the learning rate over a run."""

from dataclasses import dataclass

import torch
from torch import nn

# the gates of KDA
GATES = ("f_a_proj.weight", "f_b_proj.weight", "dt_bias", "A_log")
DECAY = 0.05  # weight decay, on matrices
UNTRAINED = ("e_score_correction_bias",)  # set by quantile balancing


@dataclass(frozen=True)
class Schedule:
    """Warm-up, flat, then a straight line to zero over the last `decay` of the run."""

    rate: float = 3e-3
    warmup: int = 100  # steps
    decay: float = 0.4  # share of the run; 0 stays flat to the end

    def at(self, step: int, progress: float) -> float:
        """Learning rate of a step of the run, `progress` in [0, 1] of the way."""
        rise = min(1.0, (step + 1) / self.warmup)
        fall = min(1.0, (1 - progress) / self.decay) if self.decay else 1.0
        return self.rate * rise * fall


def optimizer(model: nn.Module, gate_rate: float) -> torch.optim.AdamW:
    """Three groups, each with the factor `scale` on the learning rate.

    The decay gates have `gate_rate`: at the full rate their half-lives collapse to a few tokens.
    """
    groups = {"matrix": [], "vector": [], "gate": []}
    for name, parameter in model.named_parameters():
        if name.endswith(UNTRAINED):
            parameter.requires_grad_(False)
        elif name.endswith(GATES):
            groups["gate"].append(parameter)
        else:
            groups["matrix" if parameter.ndim > 1 else "vector"].append(parameter)
    return torch.optim.AdamW(
        [
            {"params": groups["matrix"], "weight_decay": DECAY, "scale": 1.0},
            {"params": groups["vector"], "weight_decay": 0.0, "scale": 1.0},
            {"params": groups["gate"], "weight_decay": 0.0, "scale": gate_rate},
        ],
        betas=(0.9, 0.95),
        fused=True,
    )


def set_rate(adam: torch.optim.Optimizer, rate: float) -> None:
    for group in adam.param_groups:
        group["lr"] = rate * group["scale"]

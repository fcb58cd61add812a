"""Random weights, drawn as the official code draws them."""

import math

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from k3scope.model.config import Config
from k3scope.model.kda import KimiDeltaAttention, ShortConvolution
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.moe import Experts, Router
from k3scope.model.vision.tower import PositionTable


@torch.no_grad()
def random_model(c: Config, seed: int = 0) -> KimiK3:
    """A model with seeded random weights, in float32 on the CPU."""
    model = build(c)
    model.to_empty(device="cpu")
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        _fill(module, c, generator)
    return model.eval().requires_grad_(False)


def build(c: Config) -> KimiK3:
    """The module tree on the meta device: every shape, no numbers, no memory."""
    with torch.device("meta"), _NoDraws():
        return KimiK3(c).eval().requires_grad_(False)


class _NoDraws(TorchFunctionMode):
    """Passes over what `torch.nn` modules draw when they are made: on the meta device there are no numbers.

    The first of those draws would load torch's compiler, which takes longer than everything else here.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__module__", "") == "torch.nn.init":
            return (args or tuple(kwargs.values()))[0]
        return func(*args, **(kwargs or {}))


def _fill(module: nn.Module, c: Config, generator: torch.Generator) -> None:
    if isinstance(module, nn.Linear | nn.Embedding | nn.Conv2d | PositionTable):
        module.weight.normal_(0, c.init_std, generator=generator)
    elif isinstance(module, Experts):
        for weight in (module.w1, module.w3, module.w2):
            weight.normal_(0, c.init_std, generator=generator)
    elif isinstance(module, Router):
        nn.init.kaiming_uniform_(module.weight, a=math.sqrt(5), generator=generator)
        module.e_score_correction_bias.zero_()
    elif isinstance(module, ShortConvolution):
        bound = module.weight.shape[-1] ** -0.5
        module.weight.uniform_(-bound, bound, generator=generator)
    elif isinstance(module, KimiDeltaAttention):
        module.A_log.zero_()
        module.A_log[: c.kda_heads].uniform_(1, 16, generator=generator).log_()
        module.dt_bias.zero_()  # the official code leaves it unset
    elif hasattr(module, "eps") and hasattr(module, "weight"):
        module.weight.fill_(1.0)

"""A small model as training begins: random weights, and half-lives that cover all scales."""

import math

import torch

from k3scope.model.init import random_model
from k3scope.model.kda import KimiDeltaAttention
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.training.recipes import Recipe


def initial_model(recipe: Recipe, seed: int) -> KimiK3:
    """The model before training: half-lives of the memory spread evenly over their logarithm."""
    model = random_model(recipe.config, seed)
    generator = torch.Generator().manual_seed(seed)
    low, high = (math.log(x) for x in recipe.half_lives)
    for module in model.modules():
        if isinstance(module, KimiDeltaAttention):
            lives = torch.empty_like(module.dt_bias).uniform_(low, high, generator=generator).exp()
            share = math.log(2) / lives / -module.c.decay_floor  # of the strongest decay
            module.dt_bias.copy_(torch.log(share / (1 - share)))
            module.A_log.zero_()  # as the report trains it
    return model

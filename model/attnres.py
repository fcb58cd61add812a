"""Block attention residuals: each sublayer chooses, per token, which depth to read from."""

import torch
from torch import Tensor, nn

from k3scope.model.hooks import Probe
from k3scope.model.kernels import ops
from k3scope.model.norm import RMSNorm, widen


class AttnResMix(nn.Module):
    """Softmax over depth: blend the stored block sums and the running sum into one input."""

    def __init__(self, candidates: int, eps: float):
        super().__init__()
        self.candidates = candidates
        self.eps = eps
        if candidates > 1:
            self.probs = Probe()

    def forward(self, blocks: list[Tensor], running_sum: Tensor, norm: RMSNorm, proj: nn.Linear) -> Tensor:
        if self.candidates == 1:  # layer 0: nothing is stored yet and the release skips the mix
            return running_sum
        values = torch.stack([*blocks, running_sum], -2)  # [B, T, candidates, d]
        query = widen(norm.weight) * widen(proj.weight[0])  # [d], the same for every token
        mixed, weights = ops.mix(
            values, query, self.eps
        )  # scores of the normed values, blend of the raw ones
        probs = self.probs(weights)  # [B, T, candidates]
        return mixed if probs is weights else ops.combine(values, probs)  # other weights, another blend

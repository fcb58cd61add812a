"""Block attention residuals: each sublayer chooses, per token, which depth to read from."""

import torch
from torch import Tensor, nn

from model.norm import RMSNorm, widen
from model.tracing import Probe


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
        values = widen(torch.stack([*blocks, running_sum], -2))  # [B, T, candidates, d]
        keys = values * torch.rsqrt(values.square().mean(-1, keepdim=True) + self.eps)
        query = widen(norm.weight) * widen(proj.weight[0])  # [d], the same for every token
        probs = self.probs((keys * query).sum(-1).softmax(-1))  # [B, T, candidates]
        return (
            (probs[..., None] * values).sum(-2).to(running_sum.dtype)
        )  # raw values, not the normalised keys

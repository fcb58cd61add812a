"""How well a model predicts text: the cost of every token, and bits per byte."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from model.kimi_k3 import KimiK3


@torch.no_grad()
def token_losses(model: KimiK3, ids: Tensor) -> Tensor:
    """Nats that each next token costs: ids [B, T + 1] to [B, T]."""
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none")


def token_bytes(tokenizer) -> Tensor:
    """Bytes of text behind each id [vocab]; special tokens have none."""
    return torch.tensor([len(tokenizer.piece(i).raw) for i in range(tokenizer.vocab)])


def bits_per_byte(losses: Tensor, targets: Tensor, sizes: Tensor) -> float:
    """Bits for each byte of text; what a special token costs counts, its bytes do not."""
    return losses.double().sum().item() / math.log(2) / sizes[targets].sum().item()

"""How well a model predicts text: the cost of every token, and bits per byte."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.not_finite import NotFinite
from k3scope.model.measure.statistics import first_bad_of

STRIDE = 256  # ids of a text run at a time; the cache carries the rest


@torch.no_grad()
def token_losses(model: KimiK3, ids: Tensor) -> Tensor:
    """Nats that each next token costs: ids [B, T + 1] to [B, T]."""
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.float().transpose(1, 2), ids[:, 1:], reduction="none")


def token_bytes(tokenizer) -> Tensor:
    """Bytes of text behind each id [vocab]; special tokens have none."""
    return torch.tensor([len(tokenizer.token(i).raw) for i in range(tokenizer.vocab)])


def bits_per_byte(losses: Tensor, targets: Tensor, sizes: Tensor) -> float:
    """Bits for each byte of text; what a special token costs counts, its bytes do not."""
    return losses.double().sum().item() / math.log(2) / sizes[targets].sum().item()


@torch.no_grad()
def text_losses(model: KimiK3, ids: list[int], window: int | None = None) -> Tensor:
    """Nats that each of `ids` [T] costs after [BOS] and all ids before it.

    With a window the memory is emptied every `window` ids and starts at [BOS] again.
    """
    losses = []
    for start in range(0, len(ids), window or len(ids)):
        part = [model.config.bos, *ids[start : start + (window or len(ids))]]
        cache = model.new_cache()
        for position in range(0, len(part) - 1, STRIDE):
            inputs = torch.tensor([part[position : min(position + STRIDE, len(part) - 1)]])
            logits = model(inputs, cache).float()[0]
            losses.append(
                F.cross_entropy(
                    logits, torch.tensor(part[position + 1 : position + STRIDE + 1]), reduction="none"
                )
            )
    return torch.cat(losses) if losses else torch.zeros(0)


def refuse_bad(model: KimiK3, ids: list[int], losses: Tensor, window: int | None = None) -> None:
    """NotFinite when a loss of `text_losses` is not finite; it names the first hook point that is not."""
    bad = (~losses.isfinite()).nonzero()[:, 0].tolist()
    if not bad:
        return
    start = bad[0] // (window or len(ids)) * (window or len(ids))
    # in a pass of many tokens NaN spreads to earlier ones too, as 0 times NaN is NaN: it takes the whole pass
    stop = min(len(ids), start + (window or len(ids)), start + (bad[0] - start) // STRIDE * STRIDE + STRIDE)
    point = first_bad_of(model, torch.tensor([model.config.bos, *ids[start : stop - 1]]))
    raise NotFinite(
        f"{len(bad):,} of {len(ids):,} losses are not finite, so there is no score; "
        f"first NaN or infinity: {point or 'the loss itself'}"
    )

"""Quantile balancing: the bias that gives every expert its share, from one batch of scores.

Tech report 2.3.3 (equations 13 and 14) and appendices C and D. Used in training only; a released bias is
frozen.
"""

import torch
from torch import Tensor

BINS = 1000


def margins(scores: Tensor, bias: Tensor, top_k: int) -> Tensor:
    """How far each expert is below each token's cutoff: r = a - s, [tokens, experts].

    scores [tokens, experts] without bias; the cutoff a is the (top_k + 1)-th biased score of the token.
    """
    cutoff = (scores + bias).topk(top_k + 1, -1).values[:, -1:]
    return cutoff - scores


def exact_bias(scores: Tensor, bias: Tensor, top_k: int) -> Tensor:
    """The next bias [experts]: the top_k/experts quantile of the margins, shifted to mean zero."""
    r = margins(scores, bias, top_k)
    target = torch.quantile(r, top_k / scores.shape[1], dim=0)
    return target - target.mean()


def histogram(scores: Tensor, bias: Tensor, top_k: int) -> Tensor:
    """Counts of the margins in `BINS` equal bins over [min(bias) - 1, max(bias) + 1]: [experts, BINS].

    Counts of several batches or machines add up: one integer all-reduce per layer and step.
    """
    low, width = _bins(bias)
    index = (
        ((margins(scores, bias, top_k) - low) / width).floor().long().clamp(0, BINS - 1)
    )  # [tokens, experts]
    counts = torch.zeros(scores.shape[1], BINS, dtype=torch.long)
    return counts.scatter_add_(1, index.T.cpu(), torch.ones_like(index.T, device="cpu"))


def histogram_bias(counts: Tensor, bias: Tensor, top_k: int) -> Tensor:
    """The next bias [experts] from summed histograms, interpolated inside the bin of the quantile."""
    low, width = _bins(bias)
    experts = counts.shape[0]
    tokens = counts[0].sum()
    q = tokens * top_k / experts
    cumulative = counts.cumsum(1)
    bin = (cumulative >= torch.ceil(q)).int().argmax(1, keepdim=True)  # first bin that reaches the quantile
    inside_bin = counts.gather(1, bin).double()
    below = cumulative.gather(1, bin).double() - inside_bin
    inside = ((q - below) / inside_bin.clamp(min=1)).clamp(0, 1)
    target = (low + (bin + inside) * width)[:, 0]
    return (target - target.mean()).to(bias.dtype)


def _bins(bias: Tensor) -> tuple[float, float]:
    low, high = bias.min().item() - 1, bias.max().item() + 1
    return low, (high - low) / BINS

"""Attention maps of MLA, recomputed per head from queries and keys: no [heads, T, T] has to be recorded."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from k3scope.model.measure.hook_points import array, layers_with
from k3scope.model.norm import widen
from k3scope.model.tracing import Trace

_ATTN = "self_attn."


@dataclass(frozen=True)
class Heads:
    """What the heads of one layer do, in a few numbers. NaN where a token has no earlier one to choose."""

    sink: np.ndarray  # [T, heads], share that goes to token 0
    entropy: np.ndarray  # [T, heads], nats
    itself: np.ndarray  # [T, heads], share that stays at the token
    gate: np.ndarray | None  # [T, heads], output gate, mean over the head's channels; None: no gate


def points(config, layer: int) -> list[str]:
    """Hook points inside a layer that these reducers read."""
    if config.kinds[layer] != "mla":
        return []
    query = "q_b_proj" if config.q_rank else "q_proj"
    names = [query, "kv_b_proj", "shared_key", "attention", *(["gate"] if config.mla_gate else [])]
    return [_ATTN + name for name in names]


def mla_layers(trace: Trace) -> list[int]:
    return layers_with(trace, _ATTN + "shared_key")


def heads_of(trace: Trace, layer: int) -> int:
    """How many heads an MLA layer has."""
    if layer not in mla_layers(trace):
        raise ValueError(f"layer {layer} has no attention map; MLA layers: {mla_layers(trace)}")
    return trace.layer(layer, _ATTN + "attention").shape[2]


@torch.no_grad()
def attention_map(
    trace: Trace, layer: int, head: int, rows: slice = slice(None), columns: slice = slice(None)
) -> np.ndarray:
    """Weights of a head [rows, columns]: what each token (row) reads from earlier ones (columns).

    0 for later ones. A crop is exact: the softmax runs over all columns.
    """
    return array(probs(trace, layer, head, rows)[:, columns])


@torch.no_grad()
def score_parts(trace: Trace, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """The score before softmax, in two parts [T, T]: of the head's own key, and of the key all heads share.

    Their sum is the score. NaN for later tokens.
    """
    own, shared = scores(trace, layer, head)
    later = torch.ones_like(own, dtype=torch.bool).triu(1)
    return array(own.masked_fill(later, torch.nan)), array(shared.masked_fill(later, torch.nan))


@torch.no_grad()
def shared_key_share(trace: Trace, layer: int) -> np.ndarray:
    """Part of each head's score differences that the shared key makes: [heads], NaN with one token.

    Variance of its part over what a token may read, over that variance plus the own key's: a constant in a
    row changes nothing, so each row is taken from its mean. Mean over the tokens after the first.
    """
    shares = []
    for head in range(heads_of(trace, layer)):
        spread = [_row_variance(part)[1:].mean() for part in scores(trace, layer, head)]
        shares.append(spread[1] / (spread[0] + spread[1]))
    return array(torch.stack(shares))


def _row_variance(part: Tensor) -> Tensor:
    """Variance of each row [T, T] over the columns up to its own."""
    count = torch.arange(1, len(part) + 1, device=part.device)
    readable = (part - part.mean()).tril()  # a constant changes no variance, and little is left to cancel
    mean = readable.sum(-1, dtype=torch.float64) / count
    return (readable.square().sum(-1, dtype=torch.float64) / count - mean.square()).clamp_min(0)


@torch.no_grad()
def heads_summary(trace: Trace, layer: int) -> Heads:
    """Sink share, entropy, own share and output gate of every head at every token."""
    columns = []
    for head in range(heads_of(trace, layer)):
        p = probs(trace, layer, head)
        entropy = -torch.special.xlogy(p, p).sum(-1, dtype=torch.float64)
        columns.append(torch.stack([p[:, 0], entropy, p.diagonal()]))
    summary = torch.stack(columns, -1)  # [3, T, heads]
    summary[:, 0] = torch.nan  # the first token reads itself, whatever the head
    return Heads(*map(array, summary), gate=gate(trace, layer))


def gate(trace: Trace, layer: int) -> np.ndarray | None:
    """Output gate of every head, mean over its channels: [T, heads]; None for a layer without one."""
    if layer not in layers_with(trace, _ATTN + "gate"):
        return None
    return array(trace.layer(layer, _ATTN + "gate")[0].unflatten(-1, (heads_of(trace, layer), -1)).mean(-1))


def probs(trace: Trace, layer: int, head: int, rows: slice = slice(None)) -> Tensor:
    """Softmax of the scores of some rows of a head: [rows, T]."""
    own, shared = scores(trace, layer, head, rows)
    tokens = torch.arange(own.shape[1], device=own.device)
    return (own + shared).masked_fill(tokens > tokens[rows, None], -torch.inf).softmax(-1)


def scores(trace: Trace, layer: int, head: int, rows: slice = slice(None)) -> tuple[Tensor, Tensor]:
    """Scaled scores of some rows of a head with all tokens, apart for own and shared key: each [rows, T]."""
    count = heads_of(trace, layer)
    if not 0 <= head < count:
        raise ValueError(f"layer {layer} has heads 0 to {count - 1}; there is no head {head}")
    q, k, shared = _queries_and_keys(trace, layer, count, head)
    wide = k.shape[-1]
    q = q[rows] * q.shape[-1] ** -0.5
    return q[:, :wide] @ k.T, q[:, wide:] @ shared.T


def _queries_and_keys(trace: Trace, layer: int, heads: int, head: int) -> tuple[Tensor, ...]:
    """q [T, nope_dim + shared_key_dim], k [T, nope_dim], shared key [T, shared_key_dim]."""
    query = "q_b_proj" if layer in layers_with(trace, _ATTN + "q_b_proj") else "q_proj"
    q = trace.layer(layer, _ATTN + query)[0].unflatten(-1, (heads, -1))[:, head]
    shared = trace.layer(layer, _ATTN + "shared_key")[0]
    kv = trace.layer(layer, _ATTN + "kv_b_proj")[0].unflatten(-1, (heads, -1))[:, head]
    return widen(q), widen(kv[:, : q.shape[-1] - shared.shape[-1]]), widen(shared)

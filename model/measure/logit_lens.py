"""The logit lens: what the model would predict next, after the last layer and after each layer before it."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from k3scope.model.attnres import AttnResMix
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.hook_points import array, layers_with
from k3scope.model.norm import widen
from k3scope.model.tracing import Trace

_TEXT = "language_model.model."
_ROWS = 256  # positions whose logits are worked on at a time
EMBEDDING = -1  # "layer" of the logit lens before any layer


@dataclass(frozen=True)
class TokenPredictions:
    """How each token followed from those before it. Nothing predicts token 0: NaN, and rank -1.

    Where the logits are not finite it is the same: no token is likelier than another.
    """

    prob: np.ndarray  # [T]
    loss: np.ndarray  # [T], nats
    rank: np.ndarray  # [T], 0 when it was the likeliest

    @property
    def mean_loss(self) -> float:
        """Over the tokens that were predicted; NaN when there is none."""
        return float(self.loss[1:].mean()) if len(self.loss) > 1 else float("nan")


@dataclass(frozen=True)
class LogitLens:
    """What every position would predict if the model ended early. Row -1 of `layers` is the embedding.

    `targets` [T] are the tokens that are scored: the next ones, and at the end the likeliest next one. Where
    logits are not finite there is none: -1 as target, rank and token, NaN as probability.
    """

    layers: tuple[int, ...]
    targets: np.ndarray  # [T]
    prob: np.ndarray  # [rows, T], of the target
    rank: np.ndarray  # [rows, T]
    top_ids: np.ndarray  # [rows, T], likeliest token
    top_prob: np.ndarray  # [rows, T]


def points(config, layer: int) -> list[str]:
    """Hook points inside a layer that the logit lens reads."""
    return ["prefix_sum", *(["block_store"] if config.block and layer % config.block == 0 else [])]


def top_next(logits: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and probabilities of the `k` likeliest tokens after the last position; logits [B, T, vocab].

    None where those logits are not finite.
    """
    ids, probs = candidates(logits[:1, -1:], k)
    there = ids[0] >= 0
    return ids[0][there], probs[0][there]


def candidates(logits: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids and probabilities [T, k] of the `k` likeliest tokens after every position; logits [B, T, vocab].

    -1 and NaN at positions whose logits are not finite.
    """
    ids, probs = [], []
    for rows in _doubles(logits[0]):
        best = rows.softmax(-1).topk(min(k, rows.shape[-1]))
        bad = ~_finite(rows)[:, None]
        ids.append(best.indices.masked_fill(bad, -1))
        probs.append(best.values.masked_fill(bad, torch.nan))
    return array(torch.cat(ids)), array(torch.cat(probs))


def token_predictions(trace: Trace) -> TokenPredictions:
    """Probability, loss and rank of every token of the prompt, from the logits of the position before it."""
    log, rank = scored(trace.logits[0, :-1], trace.ids[0, 1:])
    log = torch.cat([log.new_full((1,), torch.nan), log])
    return TokenPredictions(array(log.exp()), array(-log), np.concatenate([[-1], array(rank)]))


def scored(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probability (float64) and rank of each target [T]; logits [T, vocab]. NaN and -1: not finite."""
    logs, ranks = [logits.new_empty(0, dtype=torch.float64)], [targets.new_empty(0)]
    for rows, target in zip(_doubles(logits), targets.split(_ROWS), strict=True):
        own, bad = rows.gather(-1, target[:, None]), ~_finite(rows)
        logs.append((own - rows.logsumexp(-1, keepdim=True))[:, 0].masked_fill(bad, torch.nan))
        ranks.append((rows > own).sum(-1).masked_fill(bad, -1))
    return torch.cat(logs), torch.cat(ranks)


@torch.no_grad()
def logit_lens(model: KimiK3, trace: Trace, targets: Tensor | None = None) -> LogitLens:
    """The logit lens: `logits_after` every layer, reduced to the target and the likeliest token."""
    if targets is None:
        targets = torch.cat([trace.ids[0, 1:], likeliest(trace.logits[0, -1:])])
    layers = (EMBEDDING, *layers_with(trace, "prefix_sum"))
    rows = [_row(logits_after(model, trace, layer), targets) for layer in layers]
    prob, rank, top_ids, top_prob = (np.stack(column) for column in zip(*rows, strict=True))
    return LogitLens(layers, array(targets), prob, rank, top_ids, top_prob)


def likeliest(logits: Tensor) -> Tensor:
    """Id of the likeliest token [T], logits [T, vocab]; -1 where they are not finite."""
    return logits.argmax(-1).masked_fill(~_finite(logits), -1)


@torch.no_grad()
def logits_after(model: KimiK3, trace: Trace, layer: int) -> Tensor:
    """Logits [T, vocab] as if `layer` were the last.

    The output mix reads the sums stored up to that layer and the running sum that the layer returns, with its
    own trained query; then the final norm and the LM head. At the last layer these are the model's logits.
    Layer -1: the embedding alone. A model without AttnRes has no mix: norm and LM head read the running sum.
    """
    text, head = model.language_model.model, model.language_model.lm_head
    stored = [trace.layer(n, "block_store")[:1] for n in layers_with(trace, "block_store") if n <= layer]
    hidden = embedding(trace) if layer == EMBEDDING else trace.layer(layer, "prefix_sum")[:1]
    if stored:
        mix = AttnResMix(len(stored) + 1, text.output_attn_res.eps)
        hidden = mix(stored, hidden, text.output_attn_res_norm, text.output_attn_res_proj)
    return head(text.norm(hidden))[0]


def embedding(trace: Trace) -> Tensor:
    """The rows that enter layer 0, images in place: [1, T, d]."""
    places = (f"{_TEXT}layers.0.block_store", f"{_TEXT}splice", f"{_TEXT}embed_tokens")
    return next(trace.values[place] for place in places if place in trace.values)[:1]


def _row(logits: Tensor, targets: Tensor) -> tuple[np.ndarray, ...]:
    """Of one layer, in the precision of the logits: probability and rank of the target, likeliest token."""
    logits = widen(logits)
    bad, known = ~_finite(logits), targets >= 0
    own, (top, best) = logits.gather(-1, targets.clamp_min(0)[:, None])[:, 0], logits.max(-1)
    total = logits.logsumexp(-1)
    rank = (logits > own[:, None]).sum(-1).masked_fill(bad | ~known, -1)
    prob = (own - total).exp().masked_fill(bad | ~known, torch.nan)
    top_prob = (top - total).exp().masked_fill(bad, torch.nan)
    return array(prob), array(rank), array(best.masked_fill(bad, -1)), array(top_prob)


def _finite(logits: Tensor) -> Tensor:
    """Whether every logit of a row is a number: [T]."""
    return logits.isfinite().all(-1)


def _doubles(logits: Tensor):
    return (widen(rows).double() for rows in logits.split(_ROWS))

"""Which experts the tokens went to, how strongly, and how close the choice was."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from k3scope.model.measure.hook_points import array, layers_with
from k3scope.model.tracing import Trace

_SHARED = "block_sparse_moe.shared_experts"
_MOE = "block_sparse_moe."
_GATE = _MOE + "gate."


@dataclass(frozen=True)
class Routing:
    """The choice of one layer for the first sequence: best expert first.

    A token whose scores are not finite chose nothing: index -1, NaN as weight and margin.
    """

    layer: int
    index: np.ndarray  # [T, top_k]
    weight: np.ndarray  # [T, top_k]
    margin: np.ndarray  # [T], distance from the last chosen to the first refused score

    @property
    def bad(self) -> np.ndarray:
        """Tokens without a choice, since their scores are not finite: [T] bool."""
        return self.index[:, 0] < 0

    def counts(self, experts: int) -> np.ndarray:
        """Tokens per expert; sums to T * top_k, less the tokens without a choice."""
        return np.bincount(self.index[~self.bad].ravel(), minlength=experts)

    def load(self, experts: int) -> np.ndarray:
        """Summed weight per expert; NaN where no token chose any."""
        chose = ~self.bad
        if not chose.any():
            return np.full(experts, np.nan)
        return np.bincount(self.index[chose].ravel(), self.weight[chose].ravel(), minlength=experts)

    def lanes(self, experts: int) -> np.ndarray:
        """Weight of every expert for every token [T, experts], 0 where it was not chosen."""
        image, chose = np.zeros((len(self.index), experts), dtype=np.float32), ~self.bad
        image[~chose] = np.nan
        rows = image[chose]
        np.put_along_axis(rows, self.index[chose].astype(np.int64), self.weight[chose], -1)
        image[chose] = rows
        return image


@dataclass(frozen=True)
class Balance:
    """How evenly one layer used its experts; NaN where no token chose any."""

    target: float  # tokens per expert if all were used alike
    counts: np.ndarray  # [experts]
    dead: np.ndarray  # experts that got no token
    violation: float  # largest count / target - 1: 0 is even
    entropy: float  # of the shares, nats; log(experts) is even

    @property
    def load(self) -> np.ndarray:
        """Of each expert, relative to the target: 0 is even, -1 no token."""
        with np.errstate(invalid="ignore"):
            return (self.counts / self.target - 1).astype(np.float32)


@dataclass(frozen=True)
class Output:
    """RMS of what the routed and the shared experts add at each token."""

    routed: np.ndarray  # [T]
    shared: np.ndarray  # [T]

    @property
    def routed_share(self) -> np.ndarray:
        """routed / (routed + shared), by token."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.routed / (self.routed + self.shared)


@dataclass(frozen=True)
class BiasEffect:
    """The choice as it is against the best scores alone. Nothing differs where the bias is zero.

    Tokens whose scores are not finite have no choice: -1, and NaN as `changed`.
    """

    without: np.ndarray  # [T, top_k], the experts with the best scores
    changed: np.ndarray  # [T], choices that are others without the bias
    gained: np.ndarray  # [experts], tokens an expert has only with it
    lost: np.ndarray  # [experts], tokens an expert would have without it


def points(config, layer: int) -> list[str]:
    """Points inside a layer that these reducers read."""
    if layer < config.dense_layers:
        return []
    routed = "routed_expert_up_proj" if config.latent else "combine"
    gate = [_GATE + name for name in ("scores", "topk_idx", "topk_weight", "margin")]
    return [*gate, _MOE + routed, *([_SHARED] if config.shared_experts else [])]


def moe_layers(trace: Trace) -> list[int]:
    return layers_with(trace, _GATE + "topk_idx")


def routing_of(trace: Trace, layer: int) -> Routing:
    """Choice, weights and margins of a layer that has experts."""
    index, weight, margin = (trace.layer(layer, _GATE + p)[0] for p in ("topk_idx", "topk_weight", "margin"))
    bad = _bad(trace, layer)
    index = index.masked_fill(bad[:, None], -1).to(torch.int16)
    weight, margin = weight.masked_fill(bad[:, None], torch.nan), margin.masked_fill(bad, torch.nan)
    return Routing(layer, array(index), array(weight), array(margin))


def _bad(trace: Trace, layer: int) -> Tensor:
    """Whether the choice of a token rests on what is no number: [T]."""
    points = [trace.layer(layer, _GATE + p)[0] for p in ("scores", "topk_weight", "margin")]
    return ~torch.stack([p.isfinite().reshape(len(p), -1).all(-1) for p in points]).all(0)


def routing_counts(trace: Trace) -> np.ndarray:
    """Tokens per expert in every MoE layer [MoE layers, experts]; each row sums to T * top_k, less the tokens
    without a choice.
    """
    layers = moe_layers(trace)
    if not layers:
        return np.zeros((0, 0), dtype=np.int64)
    experts = experts_of(trace, layers[0])
    return np.stack([routing_of(trace, layer).counts(experts) for layer in layers])


def experts_of(trace: Trace, layer: int) -> int:
    """How many routed experts a layer has."""
    return trace.layer(layer, _GATE + "scores").shape[-1]


def balance(counts: np.ndarray) -> Balance:
    """From the tokens per expert [experts] of one layer."""
    total = counts.sum()
    if not total:
        return Balance(np.nan, counts, np.zeros(0, dtype=np.int64), np.nan, np.nan)
    target = total / len(counts)
    share = counts[counts > 0] / total
    entropy = float(-(share * np.log(share)).sum())
    return Balance(target, counts, np.flatnonzero(counts == 0), float(counts.max() / target - 1), entropy)


def score_entropy(trace: Trace, layer: int) -> np.ndarray:
    """Entropy in nats of each token's scores over all experts, scaled to sum 1: [T].

    log(experts) when the router has no preference.
    """
    scores = trace.layer(layer, _GATE + "scores")[0].double()
    share = scores / scores.sum(-1, keepdim=True)
    return array(-torch.special.xlogy(share, share).sum(-1))


def output_of(trace: Trace, layer: int) -> Output:
    """Size of the routed part (after its up-projection) and of the shared part of a MoE layer."""
    up = _MOE + "routed_expert_up_proj"
    routed = up if layers_with(trace, up) else _MOE + "combine"
    size = lambda point: trace.layer(layer, point)[0].square().mean(-1).sqrt()  # noqa: E731
    own = size(routed)
    return Output(array(own), array(size(_SHARED) if layers_with(trace, _SHARED) else torch.zeros_like(own)))


def bias_effect(trace: Trace, layer: int) -> BiasEffect:
    """What the correction bias changed in the choice; forced routes count as changed too."""
    scores, index = trace.layer(layer, _GATE + "scores")[0], trace.layer(layer, _GATE + "topk_idx")[0]
    plain, bad = scores.topk(index.shape[-1], -1).indices, _bad(trace, layer)
    common = (index[:, :, None] == plain[:, None, :]).any(-1) | bad[:, None]
    back = (plain[:, :, None] == index[:, None, :]).any(-1) | bad[:, None]
    tokens = lambda chosen: torch.bincount(chosen, minlength=scores.shape[-1])  # noqa: E731
    changed = (~common).sum(-1)
    return BiasEffect(
        array(plain.masked_fill(bad[:, None], -1).to(torch.int16)),
        array(changed.float().masked_fill(bad, torch.nan) if bad.any() else changed),
        array(tokens(index[~common])),
        array(tokens(plain[~back])),
    )

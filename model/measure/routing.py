"""Which experts the tokens went to, how strongly, and how close the choice was."""

from dataclasses import dataclass

import numpy as np
import torch

from k3scope.model.measure.hook_points import array, layers_with
from k3scope.model.tracing import Trace

_SHARED = "block_sparse_moe.shared_experts"
_MOE = "block_sparse_moe."
_GATE = _MOE + "gate."


@dataclass(frozen=True)
class Routing:
    """The choice of one layer for the first sequence: best expert first."""

    layer: int
    index: np.ndarray  # [T, top_k]
    weight: np.ndarray  # [T, top_k]
    margin: np.ndarray  # [T], distance from the last chosen to the first refused score

    def counts(self, experts: int) -> np.ndarray:
        """Tokens per expert; sums to T * top_k."""
        return np.bincount(self.index.ravel(), minlength=experts)

    def load(self, experts: int) -> np.ndarray:
        """Summed weight per expert."""
        return np.bincount(self.index.ravel(), self.weight.ravel(), minlength=experts)

    def lanes(self, experts: int) -> np.ndarray:
        """Weight of every expert for every token [T, experts], 0 where it was not chosen."""
        image = np.zeros((len(self.index), experts), dtype=np.float32)
        np.put_along_axis(image, self.index.astype(np.int64), self.weight, -1)
        return image


@dataclass(frozen=True)
class Balance:
    """How evenly one layer used its experts."""

    target: float  # tokens per expert if all were used alike
    counts: np.ndarray  # [experts]
    dead: np.ndarray  # experts that got no token
    violation: float  # largest count / target - 1: 0 is even
    entropy: float  # of the shares, nats; log(experts) is even

    @property
    def load(self) -> np.ndarray:
        """Of each expert, relative to the target: 0 is even, -1 no token."""
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
    """The choice as it is against the best scores alone. Nothing differs where the bias is zero."""

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
    return Routing(layer, array(index.to(torch.int16)), array(weight), array(margin))


def routing_counts(trace: Trace) -> np.ndarray:
    """Tokens per expert in every MoE layer [MoE layers, experts]; each row sums to T * top_k."""
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
    plain = scores.topk(index.shape[-1], -1).indices
    common = (index[:, :, None] == plain[:, None, :]).any(-1)
    back = (plain[:, :, None] == index[:, None, :]).any(-1)
    tokens = lambda chosen: torch.bincount(chosen, minlength=scores.shape[-1])  # noqa: E731
    return BiasEffect(
        array(plain.to(torch.int16)),
        array((~common).sum(-1)),
        array(tokens(index[~common])),
        array(tokens(plain[~back])),
    )

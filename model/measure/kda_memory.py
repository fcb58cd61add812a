"""The matrix memory of a KDA layer, recomputed from what the layer recorded: states, writes, reads."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from k3scope.model.kernels import kda_cpp, kda_torch, reference
from k3scope.model.measure.hook_points import array
from k3scope.model.norm import widen
from k3scope.model.tracing import Trace


@dataclass(frozen=True)
class Inputs:
    """Arguments of the delta rule for the first sequence, q already scaled: each [1, T, heads, ...]."""

    q: Tensor
    k: Tensor
    v: Tensor
    decay: Tensor
    write: Tensor

    def until(self, tokens: int | None) -> "Inputs":
        return Inputs(*(x[:, :tokens] for x in self.all))

    def to(self, dtype: torch.dtype) -> "Inputs":
        return Inputs(*(x.to(dtype) for x in self.all))

    @property
    def all(self) -> tuple[Tensor, ...]:
        return self.q, self.k, self.v, self.decay, self.write


@dataclass(frozen=True)
class Steps:
    """What each token did to the memory of each head: all [T, kda_heads]."""

    state: np.ndarray  # Frobenius norm of the state after the token
    erased: np.ndarray  # size of what the memory predicted for the token's key, times the write strength
    written: np.ndarray  # size of the token's value, times the write strength
    change: np.ndarray  # size of the difference of the two: the rank-one update itself
    cosine: np.ndarray  # between that prediction and the new value; 0 when nothing was predicted


@dataclass(frozen=True)
class Write:
    """One token's write in one head: the state becomes decayed state + strength * key (value - old)^T."""

    key: np.ndarray  # [kda_head_dim]
    old: np.ndarray  # [kda_head_dim], prediction of the memory for the key, after it decayed
    value: np.ndarray  # [kda_head_dim]
    strength: float

    @property
    def change(self) -> np.ndarray:
        """What is put in the place of the old prediction: [kda_head_dim]."""
        return self.strength * (self.value - self.old)


def inputs(trace: Trace, layer: int, head: int | None = None) -> Inputs:
    """What entered the delta rule of a KDA layer; of one head, or of all."""
    get = lambda name: trace.layer(layer, f"self_attn.{name}")[:1]  # noqa: E731
    decay = get("decay")
    heads, width = decay.shape[2:]
    if head is not None and not 0 <= head < heads:
        raise ValueError(f"layer {layer} has KDA heads 0 to {heads - 1}; there is no head {head}")
    one = slice(None) if head is None else slice(head, head + 1)
    v = get("v_conv1d").unflatten(-1, (heads, width))
    parts = (get("q_l2norm") * width**-0.5, get("k_l2norm"), v, decay, get("write"))
    return Inputs(*(widen(x[:, :, one]) for x in parts))


@torch.no_grad()
def steps(trace: Trace, layer: int) -> Steps:
    """Go through the tokens one by one; about 0.2 ms each."""
    x = inputs(trace, layer)
    state = x.q.new_zeros(x.q.shape[2], x.q.shape[3], x.v.shape[3])
    size, old = [], []
    for t in range(x.q.shape[1]):
        state = x.decay[0, t].exp()[..., None] * state
        old.append(torch.einsum("hk,hkv->hv", x.k[0, t], state))
        state = state + (x.write[0, t, :, None] * x.k[0, t])[..., None] * (x.v[0, t] - old[-1])[:, None]
        size.append(state.flatten(1).norm(dim=-1))
    old, key = torch.stack(old), x.k[0].norm(dim=-1)  # [T, heads, V], [T, heads]
    scaled = [x.write[0] * key * part.norm(dim=-1) for part in (old, x.v[0], x.v[0] - old)]
    cosine = torch.cosine_similarity(old, x.v[0], dim=-1)
    return Steps(array(torch.stack(size)), *map(array, scaled), array(cosine))


@torch.no_grad()
def state_after(trace: Trace, layer: int, head: int, token: int) -> np.ndarray:
    """The memory of a head after a token: [kda_head_dim (key), kda_head_dim (value)]."""
    return array(_state(inputs(trace, layer, head), token + 1))


@torch.no_grad()
def write_of(trace: Trace, layer: int, head: int, token: int) -> Write:
    """What a token replaced in the memory of a head, and by what."""
    x = inputs(trace, layer, head)
    if not 0 <= token < x.q.shape[1]:
        raise ValueError(f"the run has tokens 0 to {x.q.shape[1] - 1}; there is no token {token}")
    decayed = x.decay[0, token, 0].exp()[:, None] * _state(x, token)
    key = x.k[0, token, 0]
    old = key @ decayed
    return Write(array(key), array(old), array(x.v[0, token, 0]), float(x.write[0, token, 0]))


@torch.no_grad()
def reads(trace: Trace, layer: int, head: int) -> np.ndarray:
    """Effective attention of a head: the read-out at t is sum_s weight[t, s] * value_s. [T, T], any sign."""
    return array(read_weights(inputs(trace, layer, head))[:, 0])


def read_weights(x: Inputs) -> Tensor:
    """Weights [T, heads, T] of every earlier value in every read-out.

    Keys, decays and write strengths given, the delta rule is linear in the values: run on the identity matrix
    in place of the values, the same operator returns the weights themselves.
    """
    tokens = x.q.shape[1]
    one = torch.eye(tokens, dtype=x.v.dtype, device=x.v.device)[None, :, None, :]
    heads = [
        kda_torch.kda(
            x.q[:, :, h, None], x.k[:, :, h, None], one, x.decay[:, :, h, None], x.write[:, :, h, None]
        )
        for h in range(x.q.shape[2])
    ]
    return torch.cat([out for out, _ in heads], 2)[0]


@torch.no_grad()
def forms(trace: Trace, layer: int, tokens: int | None = None) -> dict[str, float]:
    """Largest error of each way to compute the layer's read-out, against the recurrence in float64.

    Of all tokens, or of the first so many; relative to the largest value. All are the same function:
    "recurrent" token by token, "chunked" with matrix products, "decode" by calls of one token that hand the
    state on, "C++" where it is built, "run" what the run itself recorded.
    """
    x = inputs(trace, layer).until(tokens)
    exact, _ = reference.kda(*x.to(torch.float64).all)
    outs = {
        "recurrent": reference.kda(*x.all)[0],
        "chunked": kda_torch.kda(*x.all)[0],
        "decode": _decode(x),
        "run": trace.layer(layer, "self_attn.delta_rule.out")[:1, :tokens],
    }
    if kda_cpp.serves(x.q):
        outs["C++"] = kda_cpp.kda(*x.all)[0]
    scale = exact.abs().max().clamp_min(torch.finfo(torch.float64).tiny)
    return {name: float((out.double() - exact).abs().max() / scale) for name, out in outs.items()}


def _decode(x: Inputs) -> Tensor:
    outs, state = [], None
    for t in range(x.q.shape[1]):
        out, state = kda_torch.kda(*(part[:, t : t + 1] for part in x.all), state)
        outs.append(out)
    return torch.cat(outs, 1)


def _state(x: Inputs, tokens: int) -> Tensor:
    """State of the only head after so many tokens: [K, V]."""
    if not 0 <= tokens <= x.q.shape[1]:
        raise ValueError(f"the run has tokens 0 to {x.q.shape[1] - 1}; there is no token {tokens - 1}")
    if tokens == 0:
        return x.q.new_zeros(x.q.shape[-1], x.v.shape[-1])
    return kda_torch.kda(*x.until(tokens).all)[1][0, 0]

"""The gated delta rule in chunks of 16 tokens: matrix products instead of a loop, and differentiable.

Inside a chunk every token reads what the tokens before it wrote, k_i . k_j exp(G_i - G_j) strong (G: running
sum of the log-decay). One product needs that exponential in two factors, exp(G_i - M) exp(M - G_j); with M
taken in the middle of 16 tokens and a decay of at least -5 a step neither passes exp(40).
"""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from k3scope.model.kernels import reference

CHUNK = 16
# What lies between has to stay in the cache. Key channels of the heads that are worked on at a time:
GROUP = 2048
# and tokens in a segment, by the most key channels it may then have; SHORTEST with more.
SEGMENTS = {128: 512, 512: 256}
SHORTEST = 128
SAFE = 64.0  # exp(64), exp(-64) and, at eight tokens' decay, exp(-64 * 8 / 7) are normal in float32
SHORT = 4  # up to this many tokens the loop is faster


def kda(q, k, v, decay, write, initial_state=None, cu_seqlens=None) -> tuple[Tensor, Tensor]:
    """Same arguments and results as `reference.kda`."""
    sequences = q.shape[0] if cu_seqlens is None else len(cu_seqlens) - 1
    wide = torch.promote_types(q.dtype, torch.float32)
    if initial_state is None:
        states = q.new_zeros(sequences, q.shape[2], q.shape[3], v.shape[-1], dtype=wide)
    else:
        states = initial_state.to(wide, copy=True)  # an operator returns none of its arguments
    if cu_seqlens is None:
        return _sequence(q, k, v, decay, write, states)
    runs = [
        _sequence(*(t[:, start:stop] for t in (q, k, v, decay, write)), states[n : n + 1])
        for n, (start, stop) in enumerate(pairwise(cu_seqlens.tolist()))
    ]
    return torch.cat([out for out, _ in runs], 1), torch.cat([state for _, state in runs])


def _sequence(q, k, v, decay, write, state) -> tuple[Tensor, Tensor]:
    if q.shape[1] <= SHORT:
        return _loop(q, k, v, decay, write, state)
    batch, _, heads, key_dim = q.shape
    groups = max(1, round(batch * heads * key_dim / GROUP))
    heads = -(-heads // groups)
    parts = zip(*(t.split(heads, 2) for t in (q, k, v, decay, write)), state.split(heads, 1), strict=True)
    outs, states = zip(*(_group(*part) for part in parts), strict=True)
    return torch.cat(outs, 2), torch.cat(states, 1)


def _group(q, k, v, decay, write, state) -> tuple[Tensor, Tensor]:
    """All tokens of some heads, a segment at a time."""
    channels = q.shape[0] * q.shape[2] * q.shape[3]
    tokens = next((tokens for most, tokens in SEGMENTS.items() if channels <= most), SHORTEST)
    outs = []
    for part in zip(*(t.split(tokens, 1) for t in (q, k, v, decay, write)), strict=True):
        out, state = _segment(*part, state)
        outs.append(out)
    return torch.cat(outs, 1), state


def _loop(q, k, v, decay, write, state) -> tuple[Tensor, Tensor]:
    """The reference's steps as batched products over [B * heads]."""
    batch, _, heads, _ = q.shape
    fold = lambda t: t.to(state.dtype).transpose(1, 2).flatten(0, 1)  # noqa: E731
    q, k, value, retained, write = fold(q), fold(k), fold(v), fold(decay).exp(), fold(write[..., None])
    outs, state = [q.new_empty(len(q), 0, v.shape[-1])], state.flatten(0, 1)
    # gradients need every state; without them one is enough, and it is ours
    forget, add = (Tensor.mul, Tensor.baddbmm) if torch.is_grad_enabled() else (Tensor.mul_, Tensor.baddbmm_)
    for t in range(q.shape[1]):
        now = slice(t, t + 1)
        state = forget(state, retained[:, now].mT)
        error = write[:, now] * (value[:, now] - torch.bmm(k[:, now], state))
        state = add(state, k[:, now].mT, error)
        outs.append(torch.bmm(q[:, now], state))
    out = torch.cat(outs, 1).unflatten(0, (batch, heads)).transpose(1, 2).contiguous()
    return out.to(v.dtype), state.unflatten(0, (batch, heads))


def _segment(q, k, v, decay, write, state) -> tuple[Tensor, Tensor]:
    batch, steps, heads, _ = q.shape
    fold = lambda t: _chunks(t.to(state.dtype))  # noqa: E731
    total = fold(decay).cumsum(2)  # [B * heads, chunks, CHUNK, K]
    middle = total[:, :, CHUNK // 2 - 1 : CHUNK // 2]
    spread = total - middle
    if not spread.detach().abs().max() <= SAFE:  # also when it is NaN
        return reference.kda(q, k, v, decay, write, state)
    parts = (fold(q), fold(k), fold(v), fold(write[..., None]))
    out, state = _scan(*_within(*parts, total, spread), state.flatten(0, 1))
    out = out.view(batch, heads, -1, v.shape[-1])[:, :, :steps].transpose(1, 2)
    return out.to(v.dtype), state.view(batch, heads, *state.shape[1:])


def _chunks(t: Tensor) -> Tensor:
    """[B, T, heads, X] -> [B * heads, chunks, CHUNK, X]; rows that pad the end neither write nor forget."""
    missing = -t.shape[1] % CHUNK
    if missing:
        t = F.pad(t, (0, 0, 0, 0, 0, missing))
    return t.transpose(1, 2).reshape(-1, t.shape[1] // CHUNK, CHUNK, t.shape[-1])


def _within(q, k, v, write, total, spread):
    """What a chunk does by itself: its reads and writes as functions of the state it starts from."""
    wrote = k * write
    rising = spread.exp()
    falling = rising.reciprocal()
    to_middle, to_last, last = (
        (total - spread)[:, :, :1].exp(),
        spread[:, :, -1:].exp(),
        total[:, :, -1:].exp(),
    )
    pairs = torch.cat([wrote * rising, q * rising], 2) @ (k * falling).mT  # [.., 2 CHUNK, CHUNK]
    inverse = _unit_inverse(pairs[:, :, :CHUNK].tril(-1))
    retained = rising * to_middle  # exp(total), of the state that the chunk starts from
    corrected = inverse @ torch.cat([wrote * retained, v * write], -1)
    from_state, values = corrected.split([k.shape[-1], v.shape[-1]], -1)
    readers = torch.cat([from_state, q * retained], 2)  # [.., 2 CHUNK, K], both multiply the state
    keys = (k * (falling * to_last)).mT.contiguous()  # [.., K, CHUNK]
    return readers, values, pairs[:, :, CHUNK:].tril(), keys, last.mT


def _unit_inverse(lower: Tensor) -> Tensor:
    """(I + lower)^-1 row by row. A series in powers of `lower` loses all digits on nearly parallel keys."""
    eye = torch.eye(CHUNK, dtype=lower.dtype, device=lower.device).expand_as(lower)
    rows = eye[..., :1, :]
    for i in range(1, CHUNK):
        row = eye[..., i : i + 1, :] - lower[..., i : i + 1, :i] @ rows
        rows = torch.cat([rows, row], -2)
    return rows


def _scan(readers, values, attention, keys, retained, state) -> tuple[Tensor, Tensor]:
    """Carry the state [B * heads, K, V] from chunk to chunk."""
    outs = []
    for n in range(readers.shape[1]):
        read = torch.bmm(readers[:, n], state)
        written = values[:, n] - read[:, :CHUNK]  # minus what the state predicts
        outs.append(read[:, CHUNK:].baddbmm_(attention[:, n], written))
        state = (state * retained[:, n]).baddbmm_(keys[:, n], written)
    return torch.stack(outs, 1), state

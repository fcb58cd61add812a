"""The gated delta rule on a GPU: chunks of 16 tokens side by side, then the state from chunk to chunk.

Each kernel opens with its equation and the torch lines that it stands for.
"""

import triton
import triton.language as tl

CHUNK = tl.constexpr(16)
SAFE = 80.0  # exp(80) and exp(-80) are normal numbers; eight steps at K3's floor make 40


@triton.jit
def unit_inverse(lower, C: tl.constexpr):
    """(I + lower)^-1 by forward substitution; powers of `lower` lose all digits on nearly parallel keys."""
    rows = tl.arange(0, C)
    inverse = tl.where(rows[:, None] == rows[None, :], 1.0, 0.0)
    for i in range(1, C):
        weights = tl.sum(tl.where((rows == i)[:, None], lower, 0.0), 0)
        known = tl.sum(weights[:, None] * inverse, 0)
        inverse = tl.where((rows == i)[:, None], inverse - known[None, :], inverse)
    return inverse


@triton.jit
def kda_within(
    q, k, v, decay, write, starts, stops,
    from_state, values, readers, keys, attention, kept, spread,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """G_i = g_1 + .. + g_i,  (I + L) [W U] = [b k e^G, b v],  L_ij = b_i k_i . k_j e^(G_i - G_j) for j < i.

    total = decay.cumsum(0); pair = lambda x: (x * (total - mid).exp()) @ (k * (mid - total).exp()).T
    inverse = (eye + (write * pair(k)).tril(-1)).inverse(); attention = pair(q).tril()
    from_state, values = inverse @ (write * k * total.exp()), inverse @ (write * v)
    """
    chunk, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    start, stop = tl.load(starts + chunk), tl.load(stops + chunk)
    i, c, d = tl.arange(0, CHUNK), tl.arange(0, BK), tl.arange(0, BV)
    row = (start + i) * H + head
    live = start + i < stop  # rows beyond the end neither write nor forget
    at = row[:, None] * K + c[None, :]
    mask = live[:, None] & (c < K)[None, :]
    b_k = tl.load(k + at, mask=mask, other=0.0).to(tl.float32)
    b_decay = tl.load(decay + at, mask=mask, other=0.0).to(tl.float32)
    b_write = tl.load(write + row, mask=live, other=0.0).to(tl.float32)[:, None]

    total = tl.cumsum(b_decay, 0)
    middle = tl.sum(tl.where((i < CHUNK // 2)[:, None], b_decay, 0.0), 0)[None, :]
    last = tl.sum(b_decay, 0)
    away = tl.abs(total - middle)
    rising, falling = tl.exp(total - middle), tl.trans(b_k * tl.exp(middle - total))
    lower = tl.dot(b_k * rising, falling, input_precision=PREC) * b_write
    inverse = unit_inverse(tl.where(i[:, None] > i[None, :], lower, 0.0), CHUNK)

    base = chunk * H + head
    inner = (base * CHUNK + i)[:, None] * K + c[None, :]
    inside = (c < K)[None, :] & (i >= 0)[:, None]
    b_q = tl.load(q + at, mask=mask, other=0.0).to(tl.float32)
    pairs = tl.dot(b_q * rising, falling, input_precision=PREC)
    pairs = tl.where(i[:, None] >= i[None, :], pairs, 0.0)
    tl.store(
        attention + (base * CHUNK + i)[:, None] * CHUNK + i[None, :], pairs.to(attention.dtype.element_ty)
    )
    grown = tl.exp(total)
    tl.store(readers + inner, (b_q * grown).to(readers.dtype.element_ty), mask=inside)
    tl.store(keys + inner, (b_k * tl.exp(last[None, :] - total)).to(keys.dtype.element_ty), mask=inside)
    tl.store(kept + base * K + c, tl.exp(last), mask=c < K)
    tl.store(spread + base, tl.max(tl.max(away, 1), 0))
    w = tl.dot(inverse, b_k * grown * b_write, input_precision=PREC)
    tl.store(from_state + inner, w.to(from_state.dtype.element_ty), mask=inside)

    wide = live[:, None] & (d < V)[None, :]
    b_v = tl.load(v + row[:, None] * V + d[None, :], mask=wide, other=0.0).to(tl.float32)
    u = tl.dot(inverse, b_v * b_write, input_precision=PREC)
    outer = (base * CHUNK + i)[:, None] * V + d[None, :]
    tl.store(values + outer, u.to(values.dtype.element_ty), mask=(d < V)[None, :] & (i >= 0)[:, None])


@triton.jit
def kda_scan(
    from_state, values, readers, keys, attention, kept, starts, stops, first, initial, out, final,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """D = U - W S,  O = Q S + A D,  S <- diag(e^G_last) S + K^T D,  chunk by chunk.

    written = values - from_state @ state
    out = readers @ state + attention @ written
    state = kept[:, None] * state + keys.T @ written
    """
    column, unit = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sequence, head = unit // H, unit % H
    i, c, d = tl.arange(0, CHUNK), tl.arange(0, BK), column * BV + tl.arange(0, BV)
    square = (unit * K + c)[:, None] * V + d[None, :]
    inside = (c < K)[:, None] & (d < V)[None, :]
    state = tl.load(initial + square, mask=inside, other=0.0).to(tl.float32)
    narrow = (i >= 0)[:, None] & (c < K)[None, :]
    wide = (i >= 0)[:, None] & (d < V)[None, :]
    for chunk in range(tl.load(first + sequence), tl.load(first + sequence + 1)):
        base = chunk * H + head
        inner = (base * CHUNK + i)[:, None] * K + c[None, :]
        w = tl.load(from_state + inner, mask=narrow, other=0.0)
        r = tl.load(readers + inner, mask=narrow, other=0.0)
        b_k = tl.load(keys + inner, mask=narrow, other=0.0)
        u = tl.load(values + (base * CHUNK + i)[:, None] * V + d[None, :], mask=wide, other=0.0).to(
            tl.float32
        )
        a = tl.load(attention + (base * CHUNK + i)[:, None] * CHUNK + i[None, :])
        keep = tl.load(kept + base * K + c, mask=c < K, other=0.0)
        seen = state.to(w.dtype)
        written = u - tl.dot(w, seen, input_precision=PREC)
        narrowed = written.to(w.dtype)
        read = tl.dot(r, seen, input_precision=PREC) + tl.dot(a, narrowed, input_precision=PREC)
        state = state * keep[:, None] + tl.dot(tl.trans(b_k), narrowed, input_precision=PREC)
        token = tl.load(starts + chunk) + i
        place = (token * H + head)[:, None] * V + d[None, :]
        tl.store(
            out + place, read.to(out.dtype.element_ty), mask=(token < tl.load(stops + chunk))[:, None] & wide
        )
    tl.store(final + square, state, mask=inside)


@triton.jit
def kda_loop(
    q, k, v, decay, write, bounds, state, out, T,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """S <- diag(e^g) S,  S <- S + k^T b (v - k S),  o = q S: token by token, the state in place; any decay.

    state *= decay.exp()[:, None]
    state += k[:, None] * (write * (v - k @ state))
    out = q @ state
    """
    column, unit = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    sequence, head = unit // H, unit % H
    c, d = tl.arange(0, BK), column * BV + tl.arange(0, BV)
    square = (unit * K + c)[:, None] * V + d[None, :]
    inside = (c < K)[:, None] & (d < V)[None, :]
    b_state = tl.load(state + square, mask=inside, other=0.0)
    start, stop = sequence * T, (sequence + 1) * T
    if bounds is not None:
        start, stop = tl.load(bounds + sequence), tl.load(bounds + sequence + 1)
    for token in range(start, stop):
        row = token * H + head
        here = row * K + c
        b_q = tl.load(q + here, mask=c < K, other=0.0).to(tl.float32)
        b_k = tl.load(k + here, mask=c < K, other=0.0).to(tl.float32)
        kept = tl.exp(tl.load(decay + here, mask=c < K, other=0.0).to(tl.float32))
        b_v = tl.load(v + row * V + d, mask=d < V, other=0.0).to(tl.float32)
        b_state *= kept[:, None]
        error = (b_v - tl.sum(b_state * b_k[:, None], 0)) * tl.load(write + row).to(tl.float32)
        b_state += b_k[:, None] * error[None, :]
        read = tl.sum(b_state * b_q[:, None], 0)
        tl.store(out + row * V + d, read.to(out.dtype.element_ty), mask=d < V)
    tl.store(state + square, b_state, mask=inside)

"""Two chains of small operations as one pass over memory each: the depth mix and the short convolution.

Each kernel opens with its equation and the torch lines that it stands for.
"""

import triton
import triton.language as tl


@triton.jit
def mix(values, query, out, probs, eps, D: tl.constexpr, N: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    """p = softmax_n(w . v_n / rms(v_n)),  y = sum_n p_n v_n: raw values, normalised keys.

    keys = values * (values.square().mean(-1, keepdim=True) + eps).rsqrt()
    probs = (keys @ query).softmax(-1)
    out = probs @ values
    """
    row, n = tl.program_id(0).to(tl.int64), tl.arange(0, BN)
    place = (row * N + n)[:, None] * D
    dot, square = tl.zeros([BN], tl.float32), tl.zeros([BN], tl.float32)
    for start in range(0, D, BD):
        c = start + tl.arange(0, BD)
        inside = (n < N)[:, None] & (c < D)[None, :]
        v = tl.load(values + place + c[None, :], mask=inside, other=0.0).to(tl.float32)
        w = tl.load(query + c, mask=c < D, other=0.0)
        dot += tl.sum(v * w[None, :], 1)
        square += tl.sum(v * v, 1)
    score = tl.where(n < N, dot * tl.rsqrt(square / D + eps), -float("inf"))
    p = tl.exp(score - tl.max(score, 0))
    p = p / tl.sum(p, 0)
    tl.store(probs + row * N + n, p, mask=n < N)
    for start in range(0, D, BD):  # the values come from the cache now
        c = start + tl.arange(0, BD)
        inside = (n < N)[:, None] & (c < D)[None, :]
        v = tl.load(values + place + c[None, :], mask=inside, other=0.0).to(tl.float32)
        tl.store(out + row * D + c, tl.sum(p[:, None] * v, 0).to(out.dtype.element_ty), mask=c < D)


@triton.jit
def short_conv(
    x, weight, out, eps, T,
    H: tl.constexpr, K: tl.constexpr, TAPS: tl.constexpr, NORM: tl.constexpr,
    BT: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y_t = silu(sum_i w_i x_{t - taps + 1 + i}),  and with NORM  y_t / |y_t| per head.

    y = F.silu(F.conv1d(F.pad(x, (taps - 1, 0)), weight, groups=width))
    y = y * (y.square().sum(-1, keepdim=True) + eps).rsqrt()
    """
    unit = tl.program_id(1).to(tl.int64)
    batch, head = unit // H, unit % H
    t, c = tl.program_id(0).to(tl.int64) * BT + tl.arange(0, BT), tl.arange(0, BK)
    channel = head * K + c
    total = tl.zeros([BT, BK], tl.float32)
    for i in tl.static_range(TAPS):
        past = t - (TAPS - 1) + i
        inside = ((past >= 0) & (past < T))[:, None] & (c < K)[None, :]
        place = (batch * T + past)[:, None] * (H * K) + channel[None, :]
        w = tl.load(weight + channel * TAPS + i, mask=c < K, other=0.0).to(tl.float32)
        total += tl.load(x + place, mask=inside, other=0.0).to(tl.float32) * w[None, :]
    y = total * tl.sigmoid(total)
    if NORM:
        y = y * tl.rsqrt(tl.sum(y * y, 1) + eps)[:, None]
    place = (batch * T + t)[:, None] * (H * K) + channel[None, :]
    tl.store(out + place, y.to(out.dtype.element_ty), mask=(t < T)[:, None] & (c < K)[None, :])

"""The router and the experts on a GPU: rows sorted by expert, a program for a block of an expert's rows.

Each kernel opens with its equation and the torch lines that it stands for.
"""

import triton
import triton.language as tl


@triton.jit
def hyperbolic(x):
    """tanh without cancellation: an odd polynomial near zero, where 1 - e^-2|x| would lose digits."""
    size, square = tl.abs(x), x * x
    e = tl.exp(-2.0 * size)
    far = (1.0 - e) / (1.0 + e)
    p = square * -5.70498872745e-3 + 2.06390887954e-2
    p = p * square - 5.37397155531e-2
    p = p * square + 1.33314422036e-1
    p = p * square - 3.33332819422e-1
    return tl.where(size < 0.625, x + x * square * p, tl.where(x < 0, -far, far))


@triton.jit
def capped(x, CAP: tl.constexpr):
    return x if CAP is None else CAP * hyperbolic(x / CAP)


@triton.jit
def multiply(x, weight, scale, e, row, live, n, INNER: tl.constexpr, OUTER: tl.constexpr,
             BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PREC: tl.constexpr):  # fmt: skip
    """y = x W_e^T for rows of x [.., INNER] and columns n of expert e, W [experts, OUTER, INNER].

    With a scale the weights are MXFP4: [experts, OUTER, INNER / 2], scale [experts, OUTER, INNER / 32].
    """
    PACK: tl.constexpr = 1 if scale is None else 2
    k, p = tl.arange(0, BK), tl.arange(0, BK // PACK)
    column = e * OUTER + tl.where(n < OUTER, n, 0)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, INNER, BK):
        inside = (start + k < INNER)[None, :]
        b_x = tl.load(x + row[:, None] * INNER + (start + k)[None, :], mask=live[:, None] & inside, other=0.0)
        at = start // PACK + p
        place = weight + column[None, :] * (INNER // PACK) + at[:, None]
        b_w = tl.load(place, mask=(at < INNER // PACK)[:, None], other=0)
        if scale is None:
            total = tl.dot(b_x, b_w, total, input_precision=PREC)
        else:
            group = start // 32 + tl.arange(0, BK // 32)
            b_s = tl.load(
                scale + column[:, None] * (INNER // 32) + group[None, :],
                mask=(group < INNER // 32)[None, :], other=127,
            )  # fmt: skip
            total = tl.dot_scaled(b_x, None, "bf16", b_w, b_s, "e2m1", total)
    return total


@triton.jit
def experts_up(
    x, w1, w3, s1, s3, hidden, slots, experts, starts, ends, TOP_K: tl.constexpr,
    L: tl.constexpr, F: tl.constexpr, GATE_CAP: tl.constexpr, UP_CAP: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """h = cap(W1 x) sigmoid(W1 x) cap(W3 x), rows in the order of the sorted slots.

    z = x[slots // top_k]
    gate, up = z @ w1[expert].T, z @ w3[expert].T
    hidden = situ_glu(gate, up, gate_cap, up_cap)
    """
    block, e = tl.program_id(1), tl.load(experts + tl.program_id(1)).to(tl.int64)
    if e < 0:  # the grid has room for the worst split into blocks
        return
    m = tl.load(starts + block) + tl.arange(0, BM)
    live = m < tl.load(ends + block)
    n = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    row = tl.load(slots + m, mask=live, other=0) // TOP_K
    gate = multiply(x, w1, s1, e, row, live, n, L, F, BM, BN, BK, PREC)
    up = multiply(x, w3, s3, e, row, live, n, L, F, BM, BN, BK, PREC)
    h = capped(gate, GATE_CAP) * tl.sigmoid(gate) * capped(up, UP_CAP)
    place = hidden + m[:, None] * F + n[None, :]
    tl.store(place, h.to(hidden.dtype.element_ty), mask=live[:, None] & (n < F)[None, :])


@triton.jit
def experts_down(
    hidden, w2, s2, out, slots, experts, starts, ends, L: tl.constexpr, F: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """y = W2 h, written to the slot each row came from: no two programs write the same place.

    out[slots] = hidden @ w2[expert].T
    """
    block, e = tl.program_id(1), tl.load(experts + tl.program_id(1)).to(tl.int64)
    if e < 0:
        return
    m = tl.load(starts + block) + tl.arange(0, BM)
    live = m < tl.load(ends + block)
    n = tl.program_id(0).to(tl.int64) * BN + tl.arange(0, BN)
    y = multiply(hidden, w2, s2, e, m, live, n, F, L, BM, BN, BK, PREC)
    slot = tl.load(slots + m, mask=live, other=0)
    place = out + slot[:, None] * L + n[None, :]
    tl.store(place, y.to(out.dtype.element_ty), mask=live[:, None] & (n < L)[None, :])


@triton.jit
def combine(routed, weight, out, L: tl.constexpr, TOP_K: tl.constexpr, BL: tl.constexpr):
    """y = sum_j w_j r_j, always in the order of the choices, in float32.

    out = (routed.float() * weight[:, :, None]).sum(1)
    """
    token, c = tl.program_id(0).to(tl.int64), tl.program_id(1) * BL + tl.arange(0, BL)
    total = tl.zeros([BL], tl.float32)
    for j in range(TOP_K):
        slot = token * TOP_K + j
        row = tl.load(routed + slot * L + c, mask=c < L, other=0.0).to(tl.float32)
        total += row * tl.load(weight + slot).to(tl.float32)
    tl.store(out + token * L + c, total.to(out.dtype.element_ty), mask=c < L)


@triton.jit
def route(
    logits, bias, scores, index, weight, margin, routed_scale,
    E: tl.constexpr, TOP_K: tl.constexpr, BE: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """s = sigmoid(logit); the top_k of s + b are chosen and weigh s / sum s: the bias has no weight.

    scores = logits.sigmoid(); best = (scores + bias).topk(top_k + 1)
    index, margin = best.indices[:, :-1], best.values[:, -2] - best.values[:, -1]
    weight = scores.gather(-1, index); weight = weight / weight.sum(-1, keepdim=True) * routed_scale
    """
    token, e, j = tl.program_id(0).to(tl.int64), tl.arange(0, BE), tl.arange(0, BT)
    score = tl.sigmoid(tl.load(logits + token * E + e, mask=e < E, other=0.0))
    tl.store(scores + token * E + e, score, mask=e < E)
    biased = tl.where(e < E, score + tl.load(bias + e, mask=e < E, other=0.0), -float("inf"))
    chosen, picked = tl.zeros([BT], tl.int64), tl.zeros([BT], tl.float32)
    cut = tl.zeros([BT], tl.float32)
    for n in range(TOP_K + 1):
        best = tl.argmax(biased, 0)
        here = e == best
        chosen = tl.where(j == n, best.to(tl.int64), chosen)
        picked = tl.where(j == n, tl.sum(tl.where(here, score, 0.0), 0), picked)
        cut = tl.where(j == n, tl.max(biased, 0), cut)
        biased = tl.where(here, -float("inf"), biased)
    kept = j < TOP_K
    total = tl.sum(tl.where(kept, picked, 0.0), 0) + 1e-20
    tl.store(index + token * TOP_K + j, chosen, mask=kept)
    tl.store(weight + token * TOP_K + j, picked / total * routed_scale, mask=kept)
    tl.store(margin + token, tl.sum(tl.where(j == TOP_K - 1, cut, tl.where(j == TOP_K, -cut, 0.0)), 0))

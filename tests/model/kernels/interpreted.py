"""Every Triton kernel in Triton's interpreter against float64; `test_triton.py` starts it in a process."""

import pytest
import torch
from expert_cases import SIZES, packed_inputs
from expert_cases import inputs as experts_inputs
from kernel_cases import EDGES, HARD, ODD, Case, error, inputs

from k3scope.model.kernels import dispatch, kda_triton, mix_conv_triton, moe_triton, mxfp4, ops, reference


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def poisoned(monkeypatch):
    """Fresh memory is NaN: whatever a kernel forgets to write shows up."""

    def poison(make):
        def made(*args, **kwargs):
            fresh = make(*args, **kwargs)
            return fresh.fill_(float("nan")) if fresh.is_floating_point() else fresh.fill_(-1)

        return made

    for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, poison(getattr(owner, name)))


@pytest.mark.parametrize("case", EDGES + HARD + ODD, ids=str)
def test_kda_in_chunks_matches_the_float64_recurrence(poisoned, case):
    exact_out, exact_state = reference.kda(*inputs(case))
    *args, state = inputs(case, torch.float32)
    out, state = kda_triton.chunked(*args, exact_state.float() * 0 if state is None else state)
    assert error(out, exact_out) < 1e-5
    assert error(state, exact_state) < 3e-5


@pytest.mark.parametrize("case", [*EDGES[:7], *HARD[:5], *ODD[:2], Case(20, decay="deep")], ids=str)
def test_kda_loop_matches_the_float64_recurrence(poisoned, case):
    exact_out, exact_state = reference.kda(*inputs(case))
    out, state = kda_triton.kda(*inputs(case, torch.float32))
    assert error(out, exact_out) < 2e-6
    assert error(state, exact_state) < 4e-6


def test_kda_takes_bfloat16(poisoned):
    args = inputs(Case(40, state=True), torch.bfloat16)
    out, state = kda_triton.kda(*args)
    exact_out, exact_state = reference.kda(*(t.double() for t in args))
    assert (out.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    assert error(out, exact_out) < 2e-2  # the interpreter cuts bfloat16 off instead of rounding
    assert error(state, exact_state) < 2e-2


@pytest.mark.parametrize("way", ["loop", "chunked"])
def test_kda_packs_sequences_of_all_lengths(poisoned, way):
    bounds = torch.tensor([0, 1, 1, 17, 40, 41])
    *args, _ = inputs(Case(41), torch.float32)
    states = torch.randn(5, 2, 16, 16, generator=torch.Generator().manual_seed(3))
    if way == "loop":
        out, last = kda_triton.kda(*args, states, bounds)
    else:
        out, last = kda_triton.chunked(*args, states, bounds)
    exact, exact_last = reference.kda(*(t.double() for t in (*args, states)), bounds)
    assert error(out, exact) < 1e-5
    assert error(last, exact_last) < 3e-5


def test_kda_step_after_step_is_one_pass(poisoned):
    *args, state = inputs(Case(5, B=2, K=24, V=40, state=True), torch.float32)
    exact, exact_last = reference.kda(*(t.double() for t in (*args, state)))
    outs = [kda_triton.loop(*(t[:, n : n + 1] for t in args), state) for n in range(5)]
    assert error(torch.cat(outs, 1), exact) < 1e-5
    assert error(state, exact_last) < 1e-5


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_kda_refuses_decays_that_a_chunk_cannot_hold():
    with pytest.raises(ValueError, match=r"decay of -\d+\.\d in one step is too steep"):
        kda_triton.chunked(*inputs(Case(77, decay="deep", state=True), torch.float32))


def test_kda_reaches_beyond_two_to_the_31_numbers():
    """The last tokens of a row whose offsets no int32 holds; zeros that nobody touches cost no memory."""
    tokens, heads, key_dim = 2**31 // 256 + 64, 2, 128
    keys = torch.zeros(1, tokens, heads, key_dim, dtype=torch.bfloat16)
    v = torch.zeros(1, tokens, heads, 16, dtype=torch.bfloat16)
    write = torch.zeros(1, tokens, heads, dtype=torch.bfloat16)
    end = slice(tokens - 16, None)
    part = inputs(Case(16, K=key_dim), torch.bfloat16)
    for full, some in ((keys, part[1]), (v, part[2]), (write, part[4])):
        full[:, end] = some
    keys[:, end] = -keys[:, end].abs()  # so that they can be the decay, too
    args = [keys, keys, v, keys, write]
    out, state = kda_triton.kda(*args, cu_seqlens=torch.tensor([tokens - 16, tokens]))
    exact, exact_state = reference.kda(*(t[:, end].double() for t in args))
    assert error(out[:, end], exact) < 3e-2
    assert error(state, exact_state) < 3e-2


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("gate_cap", "up_cap"), [(4.0, 25.0), (None, None)], ids=["situ", "swiglu"])
def test_experts_match_float64(poisoned, sizes, gate_cap, up_cap):
    out = moe_triton.experts(*experts_inputs(*sizes, torch.float32), gate_cap, up_cap)
    assert error(out, reference.experts(*experts_inputs(*sizes), gate_cap, up_cap)) < 3e-6


def test_experts_keep_their_digits_near_zero(poisoned):
    args = experts_inputs(9, 4, 2, 32, 16, large=1e-4)
    out = moe_triton.experts(*(t.float() if t.is_floating_point() else t for t in args), 4.0, 25.0)
    assert error(out, reference.experts(*args, 4.0, 25.0)) < 3e-6


def test_packed_experts_are_decoded_in_the_kernel(poisoned):
    x, index, packed, scales = packed_inputs()
    x = x.bfloat16()
    out = moe_triton.experts_mxfp4(x, index, packed, scales, 4.0, 25.0)
    weights = [mxfp4.decode(p, s, torch.float64) for p, s in zip(packed, scales, strict=True)]
    assert error(out, reference.experts(x.double(), index, *weights, 4.0, 25.0)) < 2e-2


def test_packed_experts_reach_beyond_two_to_the_31_bytes():
    count, size = 2**31 // (64 * 32) + 8, 64
    x, _, packed, scales = packed_inputs(N=3, E=1, k=1, latent=size, width=size)
    many = [torch.zeros(count, *t.shape[1:], dtype=torch.uint8) for t in (*packed, *scales)]
    for stack, one in zip(many, (*packed, *scales), strict=True):
        stack[-1] = one[0]
    last, first = torch.full((3, 1), count - 1), torch.zeros(3, 1, dtype=torch.int64)
    far = moe_triton.experts_mxfp4(x.bfloat16(), last, many[:3], many[3:], 4.0, 25.0)
    near = moe_triton.experts_mxfp4(x.bfloat16(), first, packed, scales, 4.0, 25.0)
    assert torch.equal(far, near)


@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(5, 20, 3), (3, 896, 16), (2, 7, 6)])
def test_router_chooses_weighs_and_measures_the_cut(poisoned, tokens, experts, top_k):
    g = torch.Generator().manual_seed(experts)
    logits, bias = torch.randn(1, tokens, experts, generator=g), torch.randn(experts, generator=g) * 0.3
    ours = moe_triton.route(logits, bias, top_k, 2.5)
    exact = reference.route(logits.double(), bias.double(), top_k, 2.5)
    assert torch.equal(ours[1], exact[1])
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=1e-5, atol=1e-6)


def test_combine_adds_in_float32(poisoned):
    g = torch.Generator().manual_seed(0)
    routed, weight = torch.randn(2, 4, 3, 1500, generator=g), torch.rand(2, 4, 3, generator=g)
    assert (
        error(moe_triton.combine(routed, weight), reference.combine(routed.double(), weight.double())) < 1e-6
    )


@pytest.mark.parametrize(("candidates", "d"), [(2, 64), (9, 1100)])
def test_mix_matches_float64(poisoned, candidates, d):
    g = torch.Generator().manual_seed(d)
    values, query = torch.randn(2, 3, candidates, d, generator=g), torch.randn(d, generator=g)
    ours = mix_conv_triton.mix(values, query, 1e-5)
    for a, b in zip(ours, reference.mix(values.double(), query.double(), 1e-5), strict=True):
        assert error(a, b) < 1e-5


@pytest.mark.parametrize("eps", [None, 1e-6], ids=["plain", "unit"])
@pytest.mark.parametrize(("steps", "heads", "dim"), [(1, 2, 16), (21, 3, 24)])
def test_short_convolution_matches_float64(poisoned, steps, heads, dim, eps):
    g = torch.Generator().manual_seed(dim)
    x = torch.randn(2, steps, heads * dim, generator=g)
    weight = torch.randn(heads * dim, 1, 4, generator=g)
    out = mix_conv_triton.short_conv(x, weight, heads, eps)
    assert error(out, reference.short_conv(x.double(), weight.double(), heads, eps)) < 1e-5


def test_operators_take_triton_when_asked(monkeypatch):
    monkeypatch.setenv("K3SCOPE_KERNELS", "triton")
    args = inputs(Case(5), torch.float32)[:5]
    ops.kda(*args)
    assert dispatch.last_paths()["kda"] == "triton"
    ops.kda(*(t.double() for t in args))
    assert dispatch.last_paths()["kda"] == "torch"


def test_a_whole_model_runs_on_triton(monkeypatch):
    from k3scope.model import load

    model, ids = load("k3-random"), torch.arange(6)[None]
    plain = model(ids)
    monkeypatch.setenv("K3SCOPE_KERNELS", "triton")
    assert error(model(ids), plain.double()) < 1e-4
    assert dispatch.last_paths()["experts"] == "triton"

"""The Triton kernels on a GPU: right at K3's own sizes, and the same from run to run."""

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("no GPU on this machine", allow_module_level=True)
pytest.importorskip("triton", reason="triton is not installed: pip install 'k3scope[gpu]'")

from kernel_cases import EDGES, HARD, ODD, Case, error, inputs

from k3scope.model.kernels import dispatch, kda_triton, mxfp4, ops, reference

K3 = {"H": 96, "K": 128, "V": 128}
CASES = EDGES + HARD + ODD + [Case(1000, **K3), Case(257, decay="floor", state=True, **K3)]


def on_gpu(args, dtype=None):
    return tuple(t if t is None else t.cuda().to(dtype or t.dtype) for t in args)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kda_matches_float64(case):
    exact, exact_state = reference.kda(*on_gpu(inputs(case)))
    out, state = ops.kda(*on_gpu(inputs(case), torch.float32))
    assert dispatch.last_paths()["kda"] == "triton"
    assert error(out, exact) < 5e-6
    assert error(state, exact_state) < 1e-5


@pytest.mark.parametrize("case", CASES, ids=str)
def test_kda_in_bfloat16_chunks_stays_close(case):
    rounded = on_gpu(inputs(case), torch.bfloat16)
    exact, exact_state = reference.kda(*(t if t is None else t.double() for t in rounded))
    out, state = ops.kda(*rounded)
    assert error(out, exact) < 2e-2
    assert error(state, exact_state) < 2e-2


def test_kda_repeats_bit_for_bit_over_poisoned_memory():
    args = on_gpu(inputs(Case(500, state=True, **K3)), torch.bfloat16)
    first = ops.kda(*args)
    poison = torch.full((2**28,), float("nan"), device="cuda")
    del poison  # freed memory that the next call may get
    for a, b in zip(first, ops.kda(*args), strict=True):
        assert torch.equal(a, b)


def test_decoding_continues_a_prefill():
    *args, _ = on_gpu(inputs(Case(65, **K3)), torch.bfloat16)
    full, last = ops.kda(*args)
    _, state = ops.kda(*(t[:, :64] for t in args))
    out = kda_triton.loop(*(t[:, 64:] for t in args), state)
    assert error(out, full[:, 64:].double()) < 2e-2
    assert error(state, last.double()) < 2e-2


def experts_inputs(tokens, dtype, experts=32, top_k=4, latent=3584, width=3072):
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)  # noqa: E731
    index = torch.rand(tokens, experts, device="cuda").topk(top_k, -1).indices
    w1, w3 = (make(experts, width, latent) / latent**0.5 for _ in range(2))
    return make(tokens, latent), index, w1, w3, make(experts, latent, width) / width**0.5


@pytest.mark.parametrize("tokens", [1, 16, 300])
@pytest.mark.parametrize(("dtype", "most"), [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)], ids=str)
def test_experts_match_float64(tokens, dtype, most):
    torch.manual_seed(0)
    x, index, *weights = experts_inputs(tokens, dtype)
    out = ops.experts(x, index, *weights, 4.0, 25.0)
    exact = reference.experts(x.double(), index, *(w.double() for w in weights), 4.0, 25.0)
    assert dispatch.last_paths()["experts"] == "triton"
    assert error(out, exact) < most


@pytest.mark.parametrize("tokens", [1, 300])
def test_packed_experts_match_their_decoded_weights(tokens):
    torch.manual_seed(0)
    x, index, *weights = experts_inputs(tokens, torch.bfloat16, experts=8, top_k=2)
    packed, scales = zip(*(mxfp4.encode(w) for w in weights), strict=True)
    decoded = [mxfp4.decode(p, s, torch.float64) for p, s in zip(packed, scales, strict=True)]
    out = ops.experts_mxfp4(x, index, packed, scales, 4.0, 25.0)
    assert error(out, reference.experts(x.double(), index, *decoded, 4.0, 25.0)) < 2e-2


def test_small_operators_match_float64():
    torch.manual_seed(0)
    logits, bias = torch.randn(64, 896, device="cuda"), torch.randn(896, device="cuda") * 0.1
    assert torch.equal(
        ops.route(logits, bias, 16, 1.0)[1], reference.route(logits.double(), bias.double(), 16, 1.0)[1]
    )
    values, query = torch.randn(5, 9, 7168, device="cuda"), torch.randn(7168, device="cuda")
    assert (
        error(ops.mix(values, query, 1e-5)[0], reference.mix(values.double(), query.double(), 1e-5)[0]) < 1e-5
    )
    x, weight = torch.randn(1, 300, 96 * 128, device="cuda"), torch.randn(96 * 128, 1, 4, device="cuda")
    exact = reference.short_conv(x.double(), weight.double(), 96, 1e-6)
    assert error(ops.short_conv(x, weight, 96, 1e-6), exact) < 1e-5

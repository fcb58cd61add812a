"""The chosen experts on a CPU: every path against float64, few tokens and many, odd sizes, packed weights."""

import pytest
import torch
from expert_cases import SIZES, inputs, packed_inputs
from kernel_cases import error
from torch.utils.flop_counter import FlopCounterMode

from k3scope.model.kernels import dispatch, experts_cpp, experts_torch, mxfp4, native, ops, reference

EXPERTS = {"cpp": experts_cpp.experts, "torch": experts_torch.experts}


@pytest.fixture(params=["torch", "cpp"])
def path(request):
    if request.param == "cpp" and native.library("experts") is None:
        pytest.skip(native.trouble("experts"))
    return request.param


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("gate_cap", "up_cap"), [(4.0, 25.0), (None, None)], ids=["situ", "swiglu"])
def test_experts_match_float64(path, sizes, gate_cap, up_cap):
    exact = reference.experts(*inputs(*sizes), gate_cap, up_cap)
    with torch.no_grad():
        out = EXPERTS[path](*inputs(*sizes, torch.float32), gate_cap, up_cap)
    assert out.shape == exact.shape
    assert error(out, exact) < 3e-6


@pytest.mark.parametrize("large", [1e-4, 30.0, 1e4], ids=["tiny", "capped", "far"])
def test_experts_keep_their_digits_at_both_ends_of_tanh(path, large):
    exact = reference.experts(*inputs(9, 4, 2, 32, 16, large=large), 4.0, 25.0)
    with torch.no_grad():
        out = EXPERTS[path](*inputs(9, 4, 2, 32, 16, torch.float32, large), 4.0, 25.0)
    assert error(out, exact) < (
        1e-5 if large > 1 else 3e-6
    )  # a steep gate multiplies the rounding of its input


@pytest.mark.parametrize("sizes", SIZES[1:], ids=str)
def test_experts_stay_exact_in_float64(sizes):
    out = ops.experts(*inputs(*sizes), 4.0, 25.0)
    assert error(out, reference.experts(*inputs(*sizes), 4.0, 25.0)) < 1e-13


@pytest.mark.parametrize("sizes", [(3, 4, 2, 6, 4), (1, 80, 2, 6, 4)], ids=["sorted", "each"])
def test_experts_have_gradients_on_every_route(sizes):
    x, index, *weights = inputs(*sizes)
    args = [t.requires_grad_() for t in (x, *weights)]
    ours = torch.autograd.grad(ops.experts(x, index, *weights, 4.0, 25.0).sin().sum(), args)
    exact = torch.autograd.grad(reference.experts(x, index, *weights, 4.0, 25.0).sin().sum(), args)
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a, b)


def test_experts_of_nan_are_nan_and_leave_others_alone(path):
    x, index, *weights = inputs(20, 4, 2, 32, 16, torch.float32)
    clean = EXPERTS[path](x, index, *weights, 4.0, 25.0)
    x[3] = float("nan")
    out = EXPERTS[path](x, index, *weights, 4.0, 25.0)
    assert out[3].isnan().all()
    assert torch.equal(out[4:], clean[4:])


def test_experts_repeat_bit_for_bit_in_any_number_of_threads():
    if native.library("experts") is None:
        pytest.skip(native.trouble("experts"))
    args = (*inputs(200, 8, 2, 64, 64, torch.float32), 4.0, 25.0)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    first = experts_cpp.experts(*args)
    torch.set_num_threads(3)
    second = experts_cpp.experts(*args)
    torch.set_num_threads(before)
    assert torch.equal(first, second)


def test_an_expert_that_is_not_there_is_refused(path):
    x, index, *weights = inputs(40, 4, 2, 16, 8, torch.float32)
    index[5, 0] = 4
    with pytest.raises(IndexError):
        EXPERTS[path](x, index, *weights, 4.0, 25.0)


def test_packed_experts_equal_their_decoded_weights():
    x, index, packed, scales = packed_inputs()
    decoded = [mxfp4.decode(p, s, torch.float64) for p, s in zip(packed, scales, strict=True)]
    out = ops.experts_mxfp4(x, index, packed, scales, 4.0, 25.0)
    torch.testing.assert_close(out, reference.experts(x, index, *decoded, 4.0, 25.0))


def test_packed_experts_are_a_good_operator():
    args = (*packed_inputs(), 4.0, 25.0)
    torch.library.opcheck(torch.ops.k3scope.experts_mxfp4.default, args)
    with FlopCounterMode(display=False) as counter:
        ops.experts_mxfp4(*args)
    assert counter.get_total_flops() == 6 * 9 * 2 * 64 * 96


@pytest.mark.parametrize("wanted", ["torch", "cpp", "reference"])
def test_the_path_that_ran_is_known(monkeypatch, wanted):
    if wanted == "cpp" and native.library("experts") is None:
        pytest.skip(native.trouble("experts"))
    monkeypatch.setenv("K3SCOPE_KERNELS", wanted)
    ops.experts(*inputs(*SIZES[3], torch.float32), 4.0, 25.0)
    assert dispatch.last_paths()["experts"] == wanted
    ops.experts(*inputs(*SIZES[3]), 4.0, 25.0)
    assert dispatch.last_paths()["experts"] == ("reference" if wanted == "reference" else "torch")

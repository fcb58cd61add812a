"""The delta rule on a CPU: every path against the float64 recurrence, edge lengths and hard inputs."""

import pytest
import torch
from kernel_cases import EDGES, HARD, ODD, Case, error, inputs
from safetensors.torch import load_file

from k3scope.model.kernels import dispatch, kda_cpp, kda_torch, native, ops, reference

# (read-out, state): a recurrence adds up less rounding than products of chunks; hundreds of nearly equal keys
# that are never forgotten cost any float32 state a few of its last digits
TOLERANCE = {"cpp": (2e-6, 4e-6), "torch": (1e-5, 3e-5)}
KDA = {"cpp": kda_cpp.kda, "torch": kda_torch.kda}
DEEP = [Case(77, decay="deep", state=True)]


@pytest.fixture(params=["torch", "cpp"])
def path(request):
    if request.param == "cpp" and native.library("kda") is None:
        pytest.skip(native.trouble("kda"))
    return request.param


@pytest.mark.parametrize("case", EDGES + HARD + ODD + DEEP, ids=str)
def test_kda_matches_the_float64_recurrence(path, case):
    exact_out, exact_state = reference.kda(*inputs(case))
    out, state = KDA[path](*inputs(case, torch.float32))
    assert out.shape == exact_out.shape
    assert state.dtype == torch.float32
    assert error(out, exact_out) < TOLERANCE[path][0]
    assert error(state, exact_state) < TOLERANCE[path][1]


@pytest.mark.parametrize("case", [*HARD, *DEEP], ids=str)
def test_kda_stays_exact_in_float64(case):
    for ours, exact in zip(kda_torch.kda(*inputs(case)), reference.kda(*inputs(case)), strict=True):
        assert error(ours, exact) < 1e-12


@pytest.mark.parametrize("name", ["t1", "t71", "t130_retain", "t256_floor"])
def test_kda_matches_independent_numbers(path, data, name):
    d = load_file(data / "kda" / f"{name}.safetensors")
    unit = lambda x: x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)  # noqa: E731
    q = unit(d["q"]) * d["q"].shape[-1] ** -0.5
    args = q, unit(d["k"]), d["v"], d["log_alpha"].float(), d["beta_raw"].sigmoid()
    out, state = KDA[path](*args, d.get("initial_state_kv"))
    assert error(out, d["o"]) < TOLERANCE[path][0]
    if "final_state_kv" in d:
        assert error(state, d["final_state_kv"]) < TOLERANCE[path][1]


def test_kda_in_segments_is_one_pass(path):
    *args, state = inputs(Case(70, state=True), torch.float32)
    out, last = KDA[path](*args, state)
    outs = []
    for start, stop in ((0, 1), (1, 17), (17, 33), (33, 70)):
        part, state = KDA[path](*(t[:, start:stop] for t in args), state)
        outs.append(part)
    torch.testing.assert_close(torch.cat(outs, 1), out, rtol=0, atol=2e-5)
    torch.testing.assert_close(state, last, rtol=0, atol=2e-5)


def test_kda_repeats_bit_for_bit(path):
    args = inputs(Case(130, H=4, state=True), torch.float32)
    for first, second in zip(KDA[path](*args), KDA[path](*args), strict=True):
        assert torch.equal(first, second)


def test_kda_packs_sequences_of_all_lengths(path):
    """Neighbours in the row are poisoned one at a time: a sequence must not see them."""
    bounds = torch.tensor([0, 1, 1, 17, 40, 41])
    *args, _ = inputs(Case(41), torch.float32)
    states = torch.randn(5, 2, 16, 16, generator=torch.Generator().manual_seed(3))
    out, last = KDA[path](*args, states, bounds)
    for n in range(5):
        poisoned = [t.clone() for t in args]
        for t in poisoned:
            t[:, : bounds[n]] = t[:, bounds[n + 1] :] = float("nan")
        dirty, dirty_last = KDA[path](*poisoned, states, bounds)
        own = slice(bounds[n], bounds[n + 1])
        assert torch.equal(dirty[:, own], out[:, own])
        assert torch.equal(dirty_last[n], last[n])


def test_kda_shows_what_is_not_a_number(path):
    for place in range(5):
        args = [t.clone() for t in inputs(Case(20), torch.float32)[:5]]
        args[place][0, 7] = float("nan")
        out, _ = KDA[path](*args)
        assert out[:, 7:].isnan().any()
        assert not out[:, :7].isnan().any() or path == "torch"


def test_kda_takes_views(path):
    args = [t.transpose(0, 1) for t in inputs(Case(2, B=20), torch.float32)[:5]]
    out, state = KDA[path](*args)
    exact, exact_state = reference.kda(*(t.double() for t in args))
    assert error(out, exact) < 1e-5
    assert error(state, exact_state) < 3e-5


def test_kda_in_threads_is_the_same():
    if native.library("kda") is None:
        pytest.skip(native.trouble("kda"))
    args = inputs(Case(300, H=8, K=64, V=64), torch.float32)[:5]
    before = torch.get_num_threads()
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        results.append(kda_cpp.kda(*args))
    torch.set_num_threads(before)
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_kda_chunks_have_gradients():
    args = [a.requires_grad_() for a in inputs(Case(19, H=1, K=3, V=2, state=True))]
    for a, b in zip(
        torch.autograd.grad(_loss(kda_torch.kda, args), args),
        torch.autograd.grad(_loss(reference.kda, args), args),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def _loss(kda, args):
    out, state = kda(*args)
    return out.sin().sum() + state.cos().sum()


def test_the_build_leaves_tiny_numbers_alone():
    """A library linked with -ffast-math would make the whole process flush them to zero."""
    assert native.library("kda") is None or torch.tensor([1e-40]).mul(1.0).item() > 0


def test_bfloat16_inputs_give_bfloat16_outputs():
    args = inputs(Case(33), torch.bfloat16)[:5]
    out, state = ops.kda(*args)
    assert (out.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    assert error(out, reference.kda(*(t.double() for t in args))[0]) < 2e-2


@pytest.mark.parametrize("wanted", ["torch", "cpp", "reference"])
def test_the_path_that_ran_is_known(monkeypatch, wanted):
    if wanted == "cpp" and native.library("kda") is None:
        pytest.skip(native.trouble("kda"))
    monkeypatch.setenv("K3SCOPE_KERNELS", wanted)
    args = inputs(Case(5), torch.float32)[:5]
    ops.kda(*args)
    assert dispatch.last_paths()["kda"] == wanted
    ops.kda(*(t.double() for t in args))
    assert dispatch.last_paths()["kda"] == ("reference" if wanted == "reference" else "torch")
    ops.kda(*(t.requires_grad_() for t in args))
    assert dispatch.last_paths()["kda"] == ("reference" if wanted == "reference" else "torch")


def test_triton_without_a_gpu_is_refused(monkeypatch):
    monkeypatch.setenv("K3SCOPE_KERNELS", "triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ValueError, match=r"K3SCOPE_KERNELS=triton: (triton is not installed|the tensors)"):
        ops.kda(*inputs(Case(5), torch.float32)[:5])


def test_an_unknown_path_is_refused(monkeypatch):
    monkeypatch.setenv("K3SCOPE_KERNELS", "cuda")
    with pytest.raises(ValueError, match="K3SCOPE_KERNELS='cuda': expected one of triton, cpp, torch, ref"):
        ops.kda(*inputs(Case(5), torch.float32)[:5])

"""The operators: against the independent numbers, by their algebra, and as citizens of torch."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from k3scope.model.kernels import ops, reference


def inputs(B, T, H, K, V, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    make = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)  # noqa: E731
    q, k, v = make(B, T, H, K), make(B, T, H, K), make(B, T, H, V)
    k = k / k.norm(dim=-1, keepdim=True)
    return q, k, v, -5 * make(B, T, H, K).sigmoid(), make(B, T, H).sigmoid()


@pytest.mark.parametrize(("B", "T", "H", "K", "V"), [(1, 1, 1, 4, 4), (2, 7, 3, 4, 6), (1, 0, 2, 4, 4)])
def test_kda_shapes_and_states(B, T, H, K, V):
    args = inputs(B, T, H, K, V)
    out, state = ops.kda(*args)
    assert out.shape == (B, T, H, V)
    assert state.shape == (B, H, K, V)
    meta_out, meta_state = ops.kda(*(a.to("meta") for a in args))
    assert (meta_out.shape, meta_state.shape, meta_state.dtype) == (out.shape, state.shape, state.dtype)


def test_kda_in_two_halves_is_one_pass():
    args = inputs(2, 9, 3, 4, 6)
    out, state = ops.kda(*args)
    first, middle = ops.kda(*(a[:, :4] for a in args))
    second, last = ops.kda(*(a[:, 4:] for a in args), initial_state=middle)
    torch.testing.assert_close(torch.cat([first, second], 1), out, rtol=0, atol=1e-12)
    torch.testing.assert_close(last, state, rtol=0, atol=1e-12)


def test_kda_packed_sequences_do_not_see_each_other():
    args = inputs(1, 9, 2, 4, 4)
    bounds = torch.tensor([0, 3, 3, 9])
    out, states = ops.kda(*args, cu_seqlens=bounds)
    for n, (a, b) in enumerate([(0, 3), (3, 3), (3, 9)]):
        alone, state = ops.kda(*(t[:, a:b] for t in args))
        torch.testing.assert_close(out[:, a:b], alone)
        torch.testing.assert_close(states[n : n + 1], state)


def test_kda_writes_what_it_then_reads():
    """With full write strength and no forgetting, a key returns exactly the value stored for it."""
    _, _, v, decay, write = inputs(1, 5, 1, 8, 8)
    k = torch.eye(8, dtype=torch.float64)[None, :5, None]
    out, _ = ops.kda(k, k, v, torch.zeros_like(decay), torch.ones_like(write))
    torch.testing.assert_close(out, v)


def test_kda_has_gradients():
    args = [a.requires_grad_() for a in inputs(1, 3, 2, 3, 3)]
    assert torch.autograd.gradcheck(lambda *a: ops.kda(*a)[0], args)


def experts_inputs(N=6, E=5, k=2, latent=8, width=6, dtype=torch.float64):
    g = torch.Generator().manual_seed(1)
    make = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)  # noqa: E731
    index = torch.stack([torch.randperm(E, generator=g)[:k] for _ in range(N)])
    return make(N, latent), index, make(E, width, latent), make(E, width, latent), make(E, latent, width)


def test_experts_equal_one_token_at_a_time():
    x, index, w1, w3, w2 = experts_inputs()
    out = ops.experts(x, index, w1, w3, w2, 4.0, 25.0)
    for n in range(len(x)):
        for slot, e in enumerate(index[n].tolist()):
            g, u = w1[e] @ x[n], w3[e] @ x[n]
            act = 4 * torch.tanh(g / 4) * torch.sigmoid(g) * 25 * torch.tanh(u / 25)
            torch.testing.assert_close(out[n, slot], w2[e] @ act)


def test_experts_have_gradients():
    x, index, w1, w3, w2 = experts_inputs()
    args = [t.requires_grad_() for t in (x, w1, w3, w2)]
    assert torch.autograd.gradcheck(lambda x, a, b, c: ops.experts(x, index, a, b, c, 4.0, 25.0), args)


def test_experts_of_no_tokens_are_empty():
    x, index, w1, w3, w2 = experts_inputs()
    assert ops.experts(x[:0], index[:0], w1, w3, w2, 4.0, 25.0).shape == (0, 2, 8)


def test_situ_is_capped_on_both_sides():
    big = torch.tensor([-1e4, 1e4])
    act = reference.situ_glu(big, big.flip(0), 4.0, 25.0)
    assert act.abs().max() <= 100


@pytest.mark.parametrize("name", ["kda", "experts"])
def test_operators_are_good_citizens(name):
    if name == "kda":
        torch.library.opcheck(torch.ops.k3scope.kda.default, (*inputs(1, 4, 2, 4, 4), None, None))
    else:
        torch.library.opcheck(torch.ops.k3scope.experts.default, (*experts_inputs(), 4.0, 25.0))


def test_operators_count_their_flops():
    with FlopCounterMode(display=False) as counter:
        ops.kda(*inputs(2, 7, 3, 4, 6))
    assert counter.get_total_flops() == 6 * 2 * 7 * 3 * 4 * 6
    with FlopCounterMode(display=False) as counter:
        ops.experts(*experts_inputs(), 4.0, 25.0)
    assert counter.get_total_flops() == 6 * 6 * 2 * 8 * 6

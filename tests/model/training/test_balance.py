import pytest
import torch

from k3scope.model.training.balance import BINS, exact_bias, histogram, histogram_bias, margins


def batch(tokens=4096, experts=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    skew = torch.linspace(-1.5, 1.5, experts)
    return (torch.randn(tokens, experts, generator=g) + skew).sigmoid()


def load_of(scores, bias, top_k):
    return torch.bincount((scores + bias).topk(top_k, -1).indices.flatten(), minlength=scores.shape[1])


@pytest.mark.parametrize("top_k", [1, 2, 5])
def test_one_step_evens_out_the_load(top_k):
    scores, bias = batch(), torch.zeros(16)
    target = len(scores) * top_k / 16
    before = (load_of(scores, bias, top_k) - target).abs().max()
    bias = exact_bias(scores, bias, top_k)
    assert bias.mean().abs() < 1e-6
    after = (load_of(scores, bias, top_k) - target).abs().max()
    assert after < 0.5 * before
    for _ in range(20):
        bias = exact_bias(scores, bias, top_k)
    assert (load_of(scores, bias, top_k) - target).abs().max() < 0.1 * target


def test_margins_are_negative_exactly_for_the_chosen():
    scores, bias = batch(64), torch.linspace(-0.1, 0.1, 16)
    chosen = torch.zeros_like(scores, dtype=torch.bool)
    chosen.scatter_(1, (scores + bias).topk(3, -1).indices, True)
    # the first that was not chosen has a margin of exactly its bias
    assert torch.equal(margins(scores, bias, 3) < bias - 1e-6, chosen)


def test_the_histogram_form_is_the_exact_one_to_a_bin():
    scores, bias = batch(), torch.linspace(-0.2, 0.2, 16)
    counts = histogram(scores, bias, 4)
    assert counts.sum(1).eq(len(scores)).all()
    width = (bias.max() - bias.min() + 2) / BINS
    difference = histogram_bias(counts, bias, 4) - exact_bias(scores, bias, 4)
    assert difference.abs().max() < 2 * width


def test_histograms_of_two_halves_add_up():
    scores, bias = batch(), torch.zeros(16)
    halves = [histogram(part, bias, 4) for part in scores.chunk(2)]
    assert torch.equal(halves[0] + halves[1], histogram(scores, bias, 4))

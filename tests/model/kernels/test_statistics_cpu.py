"""Statistics from C++ against torch in float64."""

import pytest
import torch

from k3scope.model.kernels import native, statistics_cpp
from k3scope.model.measure.statistics import statistics

pytestmark = pytest.mark.skipif(native.library("statistics") is None, reason="no C++ compiler")


def expected(x: torch.Tensor) -> torch.Tensor:
    low, high = x.aminmax()
    variance, mean = torch.var_mean(x.double(), correction=0)
    return torch.stack([n.double() for n in (mean, variance, low, high, (x == 0).double().mean())])


@pytest.mark.parametrize(
    "shape", [(1,), (3,), (63,), (64,), (65,), (1, 31, 128), (7, 13, 5), (2049,), (3, 5000)]
)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_they_agree_at_every_length(shape, offset):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1)) + offset
    x[..., 0] = 0
    torch.testing.assert_close(statistics_cpp.numbers(x), expected(x), rtol=2e-6, atol=1e-7)


def test_any_layout_counts_each_number_once():
    x = torch.randn(2, 30, 64, generator=torch.Generator().manual_seed(2))
    for view in (
        x.mT,
        x[..., :7],
        x[:, ::3],
        x[:, :1].expand(2, 5, 64),
        x.unflatten(-1, (8, 8)).permute(3, 0, 2, 1),
    ):
        torch.testing.assert_close(statistics_cpp.numbers(view), expected(view), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("at", [0, 77, 4999])
def test_what_is_not_finite_is_left_to_torch(bad, at):
    x = torch.ones(5000)
    x[at] = bad
    assert statistics_cpp.numbers(x) is None
    assert not statistics(x).finite


def test_numbers_too_large_for_their_squares_are_left_to_torch():
    assert statistics_cpp.numbers(torch.tensor([1e25, -1e25])) is None
    assert statistics(torch.tensor([1e25, -1e25])).max == pytest.approx(1e25)

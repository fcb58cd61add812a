import torch
from torch import nn

from k3scope.model import meta
from k3scope.model.accounting import count, split, totals


def test_the_release_has_the_published_counts(full):
    t = totals(full)
    assert (t.text, t.vision, t.total) == (2_779_484_478_208, 447_358_976, 2_779_931_837_184)
    assert (t.difference("kimi-k3").tensors, t.difference("kimi-k3").bytes) == (0, 0)
    assert t.difference("k3-random") is None
    assert t.padding == 2_208
    assert t.unused == 14_336


def test_active_parameters_by_the_three_conventions(full):
    t = totals(full)
    assert t.active == 104_189_614_848  # head counted, lookup table not: the published 104.2B
    assert t.active_with_table == 105_364_019_968
    assert t.active_without_head == 103_015_209_728


def test_kimi_linear_has_the_published_counts():
    t = totals(meta("kimi-linear-48b"))
    assert (t.total, t.vision, t.unused, t.padding) == (49_122_681_728, None, 0, 0)
    assert (t.active_with_table, t.active, t.active_without_head) == (
        3_484_459_904,
        3_106_972_544,
        2_729_485_184,
    )
    assert (t.difference("kimi-linear-48b").tensors, t.difference("kimi-linear-48b").bytes) == (0, 0)


def test_subtotals_are_those_of_the_tensor_census(full):
    layers = full.language_model.model.layers
    assert count(layers[0].self_attn) == 443_740_416
    assert count(layers[3].self_attn) == 232_196_096
    assert count(layers[0].mlp) == 726_663_168
    assert count(layers[1].block_sparse_moe) == 189_927_808 + 896 * 33_030_144
    assert [count(layers[i]) for i in (0, 1, 3)] == [1_170_446_592, 30_228_720_256, 30_017_175_936]


def test_the_small_model_stays_small(tiny):
    assert 3_000_000 < count(tiny) < 5_500_000


class Odd(nn.Module):
    """Ties a weight, shares a module between two parents, and keeps parameters on containers."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 3)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight
        shared = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.Sequential(shared), nn.Sequential(shared, nn.Linear(3, 2))])
        self.layers.scale = nn.Parameter(torch.ones(5))
        self.free = nn.ParameterList([torch.ones(2), torch.ones(4)])
        self.own = nn.Parameter(torch.ones(11))
        self.register_buffer("no_parameter", torch.ones(100))


def test_tied_shared_and_container_parameters_count_once():
    assert count(Odd()) == 21 + 12 + 8 + 5 + 6 + 11


def test_parts_of_a_model_with_shared_parameters_sum_to_the_whole():
    odd = Odd()
    parts = split(odd, lambda path: ".".join(path.split(".")[:2]))
    assert sum(parts.values()) == count(odd)
    assert (parts["layers.0"], parts["layers.1"], parts["layers.scale"]) == (12, 8, 5)
    assert "head.weight" not in parts  # tied: counted under the embedding

"""The rows beside the strip of layers, against the trace itself."""

import math

import pytest
import torch

from k3scope.model import load, trace
from k3scope.model.measure.layer_rows import rows
from k3scope.model.measure.readings import readings

IDS = torch.tensor([84, 104, 101, 32, 102, 111, 120, 256, 10, 104, 101])


@pytest.fixture(scope="module")
def run():
    return trace(load("k3-random"), IDS)


@pytest.fixture(scope="module")
def layer_rows(run):
    return {row.name: row for row in rows(readings(run))}


def test_each_row_has_the_layers_that_have_its_part(layer_rows):
    c = load("k3-random").config
    assert list(layer_rows["sum"].values) == list(range(c.layers))
    assert list(layer_rows["experts"].values) == list(range(c.dense_layers, c.layers))
    assert list(layer_rows["memory"].values) == [i for i, kind in enumerate(c.kinds) if kind == "kda"]


def test_the_sum_and_the_entropy_are_those_of_the_trace(run, layer_rows):
    last = run.layer(8, "prefix_sum")[0].double()
    assert layer_rows["sum"].values[8] == pytest.approx(last.square().mean(-1).sqrt().mean().item(), rel=1e-5)
    chosen = run.layer(8, "block_sparse_moe.gate.topk_idx").flatten()
    shares = torch.bincount(chosen).double() / len(chosen)
    bits = -sum(p * math.log2(p) for p in shares.tolist() if p)
    assert layer_rows["experts"].values[8] == pytest.approx(bits, rel=1e-6)


def test_memory_is_the_median_half_life(run, layer_rows):
    decay = run.layer(0, "self_attn.decay")[0].double()
    heads = (math.log(2) / -decay).transpose(0, 1).flatten(1).median(-1).values
    assert layer_rows["memory"].values[0] == pytest.approx(heads.median().item(), rel=0.2)
    assert layer_rows["memory"].unit == "tokens"

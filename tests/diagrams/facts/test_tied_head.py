"""A model whose LM head is its embedding table: one matrix, two blocks."""

from dataclasses import replace

import pytest

from k3scope.diagrams.cost import roofline
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.check import problems
from k3scope.model.init import build
from k3scope.model.presets import K3_RECALL, KIMI_LINEAR


@pytest.fixture(params=[K3_RECALL, KIMI_LINEAR], ids=["k3", "kimi-linear"])
def pair(request):
    """The model with a head of its own, and with a tied one."""
    return [Facts("one", build(replace(request.param, own_head=own))) for own in (True, False)]


def test_a_tied_head_has_no_parameters_and_shows_the_code_that_runs(pair):
    _, tied = pair
    assert problems(tied) == []
    head = tied.block("lm_head")
    assert (head.total, head.params_filled) == (0, "0")
    assert "class TiedHead" in head.listings[0].text
    assert sum(row.total for row in tied.rows()) == tied.totals.total


def test_a_step_reads_and_multiplies_as_much_with_either_head(pair):
    own, tied = (roofline.cost(facts, roofline.Point()) for facts in pair)
    assert (own.flops, own.weight_bytes) == (tied.flops, tied.weight_bytes)


def test_the_tied_table_is_held_once(pair):
    own, tied = (roofline.held_bytes(facts, roofline.Point())[0] for facts in pair)
    assert own - tied == 2 * pair[0].config.vocab * pair[0].config.d

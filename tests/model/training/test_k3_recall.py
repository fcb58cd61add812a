"""What the card of k3-recall says about its weights, measured again on freshly generated tasks."""

import json
from functools import partial

import pytest
import torch

from k3scope.model import load
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.presets import K3_RECALL, TRAINED
from k3scope.model.training import interpretability, tasks
from k3scope.model.training.initial_model import initial_model
from k3scope.model.training.recipes import RECIPES

GATES = ("f_a_proj.weight", "f_b_proj.weight", "dt_bias", "A_log")
RECALL, TIMES_CHANCE = 0.9, 10  # the goals


@pytest.fixture(scope="module")
def trained():
    return load("k3-recall")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of("k3-recall", K3_RECALL.vocab)


@pytest.fixture(scope="module")
def stored():
    return json.loads((TRAINED["k3-recall"] / "measurements.json").read_text())["trained"]


def test_it_has_the_sizes_of_its_preset_and_reads_as_k3_tiny(trained, tokenizer):
    assert trained.config == K3_RECALL
    text = "let a=12 ? 月 lifu\n"
    assert tokenizer.encode(text) == tokenizer_of("k3-tiny", K3_RECALL.vocab).encode(text)


def test_its_decay_gates_are_those_it_was_drawn_with(trained):
    drawn = dict(initial_model(RECIPES["k3-recall"], 0).named_parameters())
    gates = {name: p for name, p in trained.named_parameters() if name.endswith(GATES)}
    assert len(gates) == 4 * K3_RECALL.kinds.count("kda")
    for name, gate in gates.items():
        torch.testing.assert_close(gate, drawn[name], rtol=2**-8, atol=0, msg=name)  # stored in bfloat16


@pytest.mark.parametrize(
    ("make", "mark", "name"),
    [
        (partial(tasks.keyvalue, once=True), "=", "keyvalue_digits_right"),
        (partial(tasks.recall, times=1), "The", "recall_words_right"),
    ],
)
def test_what_was_stated_once_is_recalled(trained, tokenizer, stored, make, mark, name):
    right = interpretability.answers(trained, tokenizer, make, mark)
    assert right == pytest.approx(stored[name], abs=0.02)
    assert right > RECALL


@pytest.mark.parametrize("repeated", [interpretability.nonsense, interpretability.unordered])
def test_a_head_looks_at_what_followed_the_last_time(trained, tokenizer, stored, repeated):
    result = interpretability.induction(trained, tokenizer, repeated)
    kept = stored["induction"][repeated.__name__]
    assert result["of"] == kept["of"]
    assert result["best_head"] == pytest.approx(kept["best_head"], abs=0.03)
    assert result["best_head"] > TIMES_CHANCE * result["chance"]
    first, second, third = result["nats_by_copy"]
    assert third < second < first / 3


def test_a_head_looks_at_the_number_of_a_key(trained, tokenizer, stored):
    result = interpretability.answering_head(trained, tokenizer)
    assert result["best_head"] == pytest.approx(stored["answering_head"]["best_head"], abs=0.03)
    assert result["best_head"] > TIMES_CHANCE * result["chance"]


def test_without_full_attention_nothing_is_copied(trained, tokenizer):
    ids = torch.tensor([[K3_RECALL.bos, *tokenizer.encode(" q d x m r k" * 5)]])
    nats = interpretability.ablations(trained, ids)
    assert nats["mla"] > nats["none"] + 1

"""What the model card says about the shipped weights, measured again on freshly generated text."""

import json
import math
from functools import partial
from random import Random

import pytest
import torch

from k3scope.assets import MODELS
from k3scope.model import load
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.presets import K3_TINY, TRAINED
from k3scope.model.runs.bits_per_byte import bits_per_byte, text_losses, token_bytes
from k3scope.model.training import interpretability, tasks
from k3scope.model.training.corpus import GENERATED
from k3scope.model.training.initial_model import initial_model
from k3scope.model.training.recipes import RECIPES
from k3scope.model.training.report import narrative

WINDOW = 192
STORY_BITS, NARRATIVE_BITS, CODE_BITS, KEYS = 0.2, 2.2, 1.75, 0.9  # the goals


@pytest.fixture(scope="module")
def trained():
    return load("k3-tiny")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of("k3-tiny", K3_TINY.vocab)


@pytest.fixture(scope="module")
def windows(tokenizer):
    """Text of every generated domain, from seeds that no corpus has: [2, WINDOW + 1] each."""
    result = {}
    for domain in sorted(RECIPES["k3-tiny"].domains & GENERATED.keys()):
        make, _ = GENERATED[domain]
        random, ids = Random(interpretability.SEED + 7), []
        while len(ids) < 2 * (WINDOW + 1):
            ids += [K3_TINY.bos, *tokenizer.encode(make(random))]
        result[domain] = torch.tensor(ids[: 2 * (WINDOW + 1)]).view(2, -1)
    return result


def test_it_has_the_sizes_of_its_preset_and_fits_in_the_repository(trained):
    assert trained.config == K3_TINY
    assert (TRAINED["k3-tiny"] / "model.safetensors").stat().st_size < 25e6
    assert all(p.isfinite().all() for p in trained.parameters())


def test_it_predicts_stories_it_has_not_seen(trained, tokenizer):
    stories = [tokenizer.encode(GENERATED["story"][0](Random(interpretability.SEED + i))) for i in range(12)]
    losses = torch.cat([text_losses(trained, ids, 256) for ids in stories])
    targets = torch.tensor([i for ids in stories for i in ids])
    bits = bits_per_byte(losses, targets, token_bytes(tokenizer))
    assert bits < STORY_BITS


@pytest.mark.slow
def test_the_domain_tells_which_experts_work(trained, windows):
    measured = interpretability.experts(trained, windows)
    untrained = interpretability.experts(
        initial_model(RECIPES["k3-tiny"], 0).eval().requires_grad_(False), windows
    )
    bits = {layer: row["mutual_information"] for layer, row in measured.items()}
    assert sum(b >= 0.5 for b in bits.values()) >= len(bits) / 2
    assert all(b > untrained[layer]["mutual_information"] for layer, b in bits.items())
    assert max(row["largest_share"] for row in measured.values()) > 3
    assert min(row["least_used"] for row in measured.values()) > 0  # no dead expert


def test_half_lives_span_two_orders_of_magnitude(trained, windows):
    lives = [x for row in interpretability.half_lives(trained, windows).values() for x in row["half_lives"]]
    assert math.log10(max(lives) / min(lives)) >= 2


def test_silencing_linear_attention_costs_more_than_noise(trained, windows):
    nats = interpretability.ablations(trained, windows["story"])
    assert nats["kda"] > nats["none"] + 0.5


@pytest.fixture(scope="module")
def stored():
    return json.loads((MODELS / "k3-tiny" / "measurements.json").read_text())


def test_plain_english_from_elsewhere_costs_what_the_card_states(trained, tokenizer, stored):
    result = narrative(trained, tokenizer)
    assert result["model"] < NARRATIVE_BITS
    assert result["model"] == pytest.approx(stored["narrative"]["model"], abs=0.01)


@pytest.mark.slow
def test_repeats_are_copied_and_keys_looked_up(trained, tokenizer, stored):
    first, second, third = interpretability.induction(trained, tokenizer, interpretability.nonsense)[
        "nats_by_copy"
    ]
    assert third < second < first / 2
    right = interpretability.answers(trained, tokenizer, partial(tasks.keyvalue, once=True), "=")
    assert right == pytest.approx(stored["trained"]["keyvalue_digits_right"], abs=0.02)
    assert right > KEYS


def test_code_that_was_held_out_costs_less_than_the_goal(stored):
    assert stored["text"]["code"]["model"] < CODE_BITS


@pytest.mark.slow
def test_a_mix_that_reads_all_alike_costs_what_the_card_states(trained, windows):
    costs = interpretability.evened(trained, windows["story"])
    assert max(costs, key=costs.get) == "output_attn_res"
    assert costs["output_attn_res"] > 1
    assert costs["layers.1.self_attention_res"] > 0.1 > costs["layers.8.mlp_res"]


def test_a_head_of_the_full_attention_looks_at_the_answer(trained, tokenizer, stored):
    result = interpretability.answering_head(trained, tokenizer)
    assert result["best_head"] == pytest.approx(stored["trained"]["answering_head"]["best_head"], abs=0.03)
    assert result["best_head"] > 6 * result["chance"]


@pytest.mark.slow
def test_the_first_layers_wipe_their_memory_where_a_document_begins(trained, tokenizer, windows):
    wiped = interpretability.resets(trained, tokenizer, windows)
    assert all(wiped[layer]["[BOS]"] > 2 for layer in ("0", "1", "2", "4"))

"""What the model card says about the shipped weights, measured again on freshly generated text."""

import json
import math
from random import Random

import pytest
import torch

from assets import ROOT
from model import load
from model.bits import bits_per_byte, text_losses, token_bytes
from model.presets import K3_TINY, TRAINED
from model.tokenizers import tokenizer_of
from model.train import fresh
from model.training import findings
from model.training.corpus import GENERATED

pytestmark = pytest.mark.skipif(
    not (ROOT / "k3-tiny" / "model.safetensors").exists(), reason="no trained weights in this checkout"
)
WINDOW = 192
STORY_BITS = 0.4


@pytest.fixture(scope="module")
def trained():
    return load("k3-tiny")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of("k3-tiny", K3_TINY.vocab)


@pytest.fixture(scope="module")
def windows(tokenizer):
    """Text of every generated domain, from seeds that no corpus has: [2, WINDOW + 1] each."""
    found = {}
    for domain, (make, _) in GENERATED.items():
        random, ids = Random(findings.SEED + 7), []
        while len(ids) < 2 * (WINDOW + 1):
            ids += [K3_TINY.bos, *tokenizer.encode(make(random))]
        found[domain] = torch.tensor(ids[: 2 * (WINDOW + 1)]).view(2, -1)
    return found


def test_it_has_the_sizes_of_its_preset_and_fits_in_the_repository(trained):
    assert trained.config == K3_TINY
    assert (TRAINED["k3-tiny"] / "model.safetensors").stat().st_size < 25e6
    assert all(p.isfinite().all() for p in trained.parameters())


def test_the_card_states_what_was_measured():
    card = (ROOT / "k3-tiny" / "README.md").read_text()
    for domain, row in json.loads((ROOT / "k3-tiny" / "measurements.json").read_text())["text"].items():
        assert f"| {domain} | {row['model']:.3f} | {row['gzip']:.3f} | {row['xz']:.3f} |" in card


def test_it_predicts_stories_it_has_not_seen(trained, tokenizer):
    text = " ".join(GENERATED["story"][0](Random(findings.SEED + i)) for i in range(6))
    ids = tokenizer.encode(text)
    bits = bits_per_byte(text_losses(trained, ids, 256), torch.tensor(ids), token_bytes(tokenizer))
    assert bits < STORY_BITS


def test_the_domain_tells_which_experts_work(trained, windows):
    known = findings.experts(trained, windows)
    untrained = findings.experts(fresh(0).eval().requires_grad_(False), windows)
    bits = {layer: row["mutual_information"] for layer, row in known.items()}
    assert sum(b >= 0.5 for b in bits.values()) >= len(bits) / 2
    assert all(b > untrained[layer]["mutual_information"] for layer, b in bits.items())
    assert max(row["largest_share"] for row in known.values()) > 3
    assert min(row["least_used"] for row in known.values()) > 0  # no dead expert


def test_half_lives_span_two_orders_of_magnitude(trained, windows):
    lives = [x for row in findings.half_lives(trained, windows).values() for x in row["half_lives"]]
    assert math.log10(max(lives) / min(lives)) >= 2


def test_silencing_linear_attention_costs_more_than_noise(trained, windows):
    nats = findings.ablations(trained, windows["story"])
    assert nats["kda"] > nats["none"] + 0.5

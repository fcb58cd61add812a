"""The cards of the small models say what was measured."""

import json
import re

import pytest

from k3scope.model import load
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.presets import TRAINED
from k3scope.model.training.card import WHAT, card
from k3scope.model.training.corpus import GENERATED
from k3scope.model.training.recipes import RECIPES
from k3scope.model.training.report import sample
from k3scope.model.training.text_sources import SOURCES


@pytest.mark.parametrize("name", TRAINED)
def test_the_card_is_its_words_filled_with_the_measurements(name):
    assert (TRAINED[name] / "README.md").read_text() == card(name)


@pytest.mark.parametrize("name", TRAINED)
def test_the_measurements_are_of_every_domain_it_was_trained_on(name):
    result = json.loads((TRAINED[name] / "measurements.json").read_text())
    assert result["text"].keys() == result["corpus"].keys() == RECIPES[name].domains


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.slow
def test_a_sample_came_as_the_card_has_it(name):
    prompt, text = json.loads((TRAINED[name] / "measurements.json").read_text())["samples"][0]
    model = load(name)
    assert sample(model, tokenizer_of(name, model.config.vocab), prompt) == text


def test_the_tokens_of_the_runs_add_up_to_what_the_card_states():
    runs = re.findall(r"^\| \d \|.*\| ([\d,]+) \| \d+ \|$", card("k3-tiny"), re.M)
    total = sum(int(tokens.replace(",", "")) for tokens in runs)
    assert f"trained by this repository on {total / 1e6:.2f} million" in card("k3-tiny")


def test_every_domain_has_words():
    assert WHAT.keys() == {*GENERATED, *(source.domain for source in SOURCES)}

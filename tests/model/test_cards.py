"""The cards of the small models say what was measured."""

import json

import pytest

from model.presets import TRAINED
from model.training.card import WHAT, card
from model.training.corpus import GENERATED
from model.training.recipes import RECIPES
from model.training.sources import SOURCES


@pytest.mark.parametrize("name", TRAINED)
def test_the_card_is_its_words_filled_with_the_measurements(name):
    assert (TRAINED[name] / "README.md").read_text() == card(name)


@pytest.mark.parametrize("name", TRAINED)
def test_the_measurements_are_of_every_domain_it_was_trained_on(name):
    found = json.loads((TRAINED[name] / "measurements.json").read_text())
    assert found["text"].keys() == found["corpus"].keys() == RECIPES[name].domains


def test_every_domain_has_words():
    assert WHAT.keys() == {*GENERATED, *(source.domain for source in SOURCES)}

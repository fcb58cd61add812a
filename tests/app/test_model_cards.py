"""What the page says of the models themselves: in the words of their cards, which it serves."""

import re

import pytest

from k3scope.app import model_cards
from k3scope.app.page import card_page
from k3scope.app.page.inspector.inspector import overview
from k3scope.app.page.kit import templates
from k3scope.model.presets import DRAWN, TRAINED


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_model_is_described_in_the_words_of_its_card_and_leads_to_it(name):
    first = model_cards.card(name).split("\n\n")[1]
    shown = overview(name, "")
    assert str(templates.prose(first.replace("](../", "](cards/"))) in shown
    assert f'href="{model_cards.address(name)}"' in shown
    assert re.fullmatch(card_page.PATH, f"/{model_cards.address(name)}")[1] == name


def test_the_specialist_says_what_it_knows_and_what_was_done_to_its_memory():
    about = " ".join(model_cards.about("k3-recall").split())
    assert "trained on repeats and look-ups alone" in about
    assert "held short on purpose" in about
    assert "half-lives of 0.5 to 2 tokens and not trained" in about


def test_random_weights_are_said_to_mean_nothing():
    assert "drawn from a seed" in overview("k3-random", "")
    assert model_cards.badge("k3-random") | {"detail": ""} == {
        "text": "random weights", "detail": "", "href": "", "warn": True,
    }  # fmt: skip


def test_a_model_that_does_not_run_here_is_not_described():
    assert "about-model" not in overview("kimi-k3", "")
    assert not any(model_cards.badge(name) for name in DRAWN if not model_cards.about(name))


@pytest.mark.parametrize("name", TRAINED)
def test_what_a_badge_says_is_plain_text(name):
    assert not re.search(r"[*`\[\]]", model_cards.badge(name)["detail"])


@pytest.mark.parametrize("name", TRAINED)
def test_a_card_is_a_page_with_tables_whose_links_stay_on_this_server(name):
    shown = card_page.card_page(name)
    assert f"<h1>{name}</h1>" in shown
    assert "<table>" in shown
    links = re.findall(r'<a href="(.*?)"', shown)
    assert all(re.fullmatch(r"\.\./([a-z0-9-]+)/README\.md", link)[1] in TRAINED for link in links)

import re
from random import Random

import numpy as np
import pytest
import torch

from k3scope.assets import MODELS
from k3scope.model.presets import KIMI_K3
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.tokenizers.tokenizer import SPECIALS
from k3scope.model.training import tasks
from k3scope.model.training.corpus import DOCUMENT, GENERATED
from k3scope.model.training.recipes import RECIPES, recipe_of
from k3scope.model.training.stories import LANGUAGES, grammar, story
from k3scope.model.training.text_sources import SOURCES
from k3scope.model.training.token_streams import DataMix, Stream, held_out, streams

BYTES = BpeTokenizer([], list(SPECIALS))  # nothing merged: an id is a byte
DOMAINS = ("counting", "story")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_story_has_no_open_slots_and_starts_sentences_with_capitals(language):
    random = Random(0)
    for _ in range(300):
        text = story(random, language)
        assert not re.search(r"[{}]|  ", text)
        assert not re.search(r'\. ["¿¡]*[a-zéà]', text), text


def test_the_same_seed_tells_the_same_story_in_every_language():
    people = [re.findall(r"Mia|Tom|Ben|Max|Leo|Rosa", story(Random(3), language)) for language in LANGUAGES]
    assert all(set(result) == set(people[0]) for result in people)


def test_the_word_lists_of_the_languages_run_in_parallel():
    for key in ("animals", "objects", "foods", "adjectives", "places", "times", "openings"):
        assert len({len(grammar(language)[key]) for language in LANGUAGES}) == 1, key


@pytest.mark.parametrize(
    ("language", "expected"),
    [("de", "einen roten Ball"), ("fr", "un ballon rouge"), ("es", "una pelota roja"), ("en", "a red ball")],
)
def test_adjectives_agree(language, expected):
    texts = [story(Random(seed), language) for seed in range(1500)]
    assert any(expected in text for text in texts)


def test_french_and_spanish_contract_articles():
    texts = [story(Random(seed), language) for language in ("fr", "es") for seed in range(300)]
    assert not [t for t in texts if re.search(r"\b(à le|de le|le oiseau|la école|a el|de el) ", t)]


def test_keyvalue_answers_come_from_the_table():
    for seed in range(50):
        statements, queries = tasks.keyvalue(Random(seed)).removeprefix("let ").split(" ? ")
        table = dict(pair.split("=") for pair in statements.split("; "))
        assert all(table[k] == v for k, v in (pair.split("=") for pair in queries.split("; ")))


def test_recall_answers_are_what_was_stated():
    for seed in range(50):
        text = tasks.recall(Random(seed))
        statements = dict(re.findall(r"(\w+) has the (\w+ \w+)\.", text))
        assert dict(re.findall(r"What does (\w+) have\? The (\w+ \w+)\.", text)) == statements


def test_a_lookup_repeats_the_pairs_that_were_stated():
    for seed in range(50):
        statements, queries = (part.split() for part in tasks.lookup(Random(seed)).split(" ? "))
        table = dict(zip(statements[::2], statements[1::2], strict=True))
        assert all(table[k] == v for k, v in zip(queries[::2], queries[1::2], strict=True))
        assert set(queries) == set(statements)


def test_a_question_is_asked_once_when_recall_is_measured():
    keys = re.findall(r" (\w)=", tasks.keyvalue(Random(1), once=True))
    names = re.findall(r"does (\w+) have", tasks.recall(Random(1), times=1))
    assert all(keys.count(key) == 2 for key in keys)  # once stated, once queried
    assert len(names) == len(set(names))


def test_a_long_repeat_repeats_single_tokens_with_its_period():
    tokenizer = BpeTokenizer.load(MODELS / "k3-tiny" / "tokenizer.json")
    for seed in range(20):
        text = tasks.long_repeat(Random(seed))
        words, ids = text.split(), tokenizer.encode(text)
        period = len(set(words))
        assert 4 <= period < 80
        assert words[period:] == words[:-period]
        assert len(ids) == len(words)


def test_letters_repeat_with_a_period_of_at_most_twelve():
    for seed in range(20):
        letters = tasks.letters(Random(seed)).split()
        assert any(letters[n:] == letters[:-n] for n in range(3, 13))


def test_sums_are_right():
    for line in "\n".join(tasks.arithmetic(Random(s)) for s in range(30)).splitlines():
        left, right = line.split(" = ")
        assert eval(left) == int(right)


def test_brackets_balance():
    for seed in range(30):
        text = tasks.brackets(Random(seed))
        while (shorter := re.sub(r"\(\)|\[\]|\{\}", "", text)) != text:
            text = shorter
        assert not text


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_reads_domains_that_exist_in_shares_that_add_up_to_one(name):
    recipe = RECIPES[name]
    assert recipe.plainest in recipe.domains <= {*GENERATED, *(s.domain for s in SOURCES)}
    for phase in recipe.phases.values():
        assert sum(phase.shares.values()) == pytest.approx(1)


def test_a_recipe_is_chosen_by_the_sizes_it_makes():
    assert all(recipe_of(recipe.config) is recipe for recipe in RECIPES.values())
    with pytest.raises(ValueError, match="k3-tiny, k3-recall"):
        recipe_of(KIMI_K3)


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "text").mkdir()
    for part in ("train", "held"):
        texts = {"story": [story(Random(i)) for i in range(20)], "counting": ["1 2 3", "4 5 6", "7 8 9"]}
        for domain, documents in texts.items():
            path = tmp_path / "text" / f"{domain}.{part}.txt"
            path.write_bytes(DOCUMENT.join(documents).encode())
    return tmp_path


def test_streams_hold_every_document_and_know_their_bytes(corpus):
    result = streams(corpus, BYTES, "train", DOMAINS)
    assert result["counting"].ids.tolist()[:7] == [256, *b"1 2 3", 256]
    assert result["counting"].bytes_per_token == 1
    assert streams(corpus, BYTES, "train", DOMAINS)["story"].text_bytes == result["story"].text_bytes


def test_a_window_begins_with_a_document_that_is_near():
    stream = Stream(np.array([9, 1, 1, 1, 9, 2, 2, 2, 2, 2, 2, 2, 2], dtype=np.uint16), 9, 11)
    assert stream.window(6, 4).tolist() == [9, 2, 2, 2]
    assert stream.window(9, 4).tolist() == [2, 2, 2, 2]  # further than the window is long
    assert len(stream.window(12, 4)) == 4


def test_a_batch_is_decided_by_seed_step_and_worker(corpus):
    result = streams(corpus, BYTES, "train", DOMAINS)
    mix = DataMix(result, {"story": 0.5, "counting": 0.5}, seed=1)
    assert mix.batch(3, 0, 4, 8).shape == (4, 9)
    assert torch.equal(mix.batch(3, 0, 4, 8), mix.batch(3, 0, 4, 8))
    assert not torch.equal(mix.batch(3, 0, 4, 8), mix.batch(3, 1, 4, 8))
    assert not torch.equal(mix.batch(3, 0, 4, 8), mix.batch(4, 0, 4, 8))


def test_held_out_windows_cover_the_stream(corpus):
    windows = held_out(streams(corpus, BYTES, "held", DOMAINS), 3, 8)
    assert {d: tuple(w.shape) for d, w in windows.items()} == {"counting": (3, 9), "story": (3, 9)}

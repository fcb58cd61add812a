import random
import time
from itertools import pairwise

import pytest

from k3scope.assets import MODELS
from k3scope.model.tokenizers.bpe import SPLIT, BpeTokenizer
from k3scope.model.tokenizers.tokenizer import SPECIALS


@pytest.fixture(scope="module")
def bpe():
    return BpeTokenizer.load(MODELS / "k3-tiny" / "tokenizer.json")


ODD = [
    " ",
    "  ",
    "\n",
    "\t",
    "_",
    "a",
    "é",
    "1",
    "٣",
    "Ⅷ",
    "\u3000",
    "\x1c",
    "\x85",
    "(",
    "😀",
    "ß",
    "\u0301",
    "[BOS]",
]


def strings(count, seed=0):
    r = random.Random(seed)
    draw = lambda: chr(r.choice([r.randrange(0xD800), r.randrange(0xE000, 0x110000)]))  # noqa: E731
    for _ in range(count):
        yield "".join(r.choice([*ODD, draw()]) for _ in range(r.randrange(16)))


def test_any_string_comes_back(bpe):
    for text in strings(2000):
        assert bpe.decode(bpe.encode(text)) == text
        assert bpe.decode(bpe.encode(text, specials=True)) == text


def test_a_lone_surrogate_comes_back(bpe):
    assert bpe.decode(bpe.encode("a\ud800")) == "a\ud800"


def test_every_character_is_in_one_pretoken():
    for text in strings(2000, seed=1):
        assert "".join(SPLIT.findall(text)) == text


def test_digits_and_newline_runs_stand_alone(bpe):
    texts = [p.text for p in bpe.tokens(bpe.encode("x = 1234\n\ny"))]
    assert texts[-6:] == ["1", "2", "3", "4", "\\n\\n", "y"]
    assert not any(any(48 <= byte < 58 for byte in bpe.token(i).raw) for i in range(256, 2032))


def test_specials_are_the_last_ids_and_text_unless_asked_for(bpe):
    assert bpe.vocab == 2048
    assert list(bpe.specials) == list(SPECIALS)
    assert bpe.encode("[BOS]a", specials=True) == [2032, ord("a")]
    assert 2032 not in bpe.encode("[BOS]a")
    assert bpe.token(2032).special


def test_the_earliest_learned_pair_merges_first():
    bpe = BpeTokenizer([(98, 99), (97, 98), (97, 256)], ["[BOS]"])
    assert bpe.encode("abc") == [258]  # b c first, then a bc; never ab
    assert bpe.encode("ab") == [257]
    assert bpe.encode("bcbc") == [256, 256]


def test_saving_and_loading_gives_the_same_tokenizer(bpe, tmp_path):
    bpe.save(tmp_path / "tokenizer.json")
    assert BpeTokenizer.load(tmp_path / "tokenizer.json").merges == bpe.merges


@pytest.mark.parametrize("i", [-1, 2048])
def test_an_id_out_of_range_is_refused(bpe, i):
    with pytest.raises(ValueError, match=r"0\.\.2047"):
        bpe.decode([i])


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ValueError, match="merges"):
        BpeTokenizer.load(tmp_path / "t.json")


def plainly_merged(bpe, pretoken):
    """By definition: the earliest learned pair first, in all its places from left to right, and again."""
    rank = {pair: 256 + i for i, pair in enumerate(bpe.merges)}
    ids = list(pretoken.encode("utf-8", "surrogatepass"))
    while pairs := [rank[pair] for pair in pairwise(ids) if pair in rank]:
        first, merged = min(pairs), []
        while ids:
            both = len(ids) > 1 and rank.get((ids[0], ids[1])) == first
            merged.append(first if both else ids[0])
            ids = ids[1 + both :]
        ids = merged
    return tuple(ids)


def test_merging_gives_what_its_definition_gives(bpe):
    r = random.Random(3)
    words = ["".join(r.choices("aehlnorst ", k=r.randrange(1, 120))) for _ in range(300)]
    for word in [*words, *strings(300, seed=4), "a" * 99, "ab" * 50, "the" * 40]:
        assert bpe._merge(word) == plainly_merged(bpe, word), word


def test_a_word_of_60000_letters_is_read_in_a_moment_and_not_cached(bpe):
    word = "".join(random.Random(5).choices("abcdefghijklmnopqrstuvwxyz", k=60_000))
    cached, start = bpe._cached.cache_info().currsize, time.process_time()
    ids = bpe.encode(word)
    assert time.process_time() - start < 1.5  # 0.15 s on a quiet machine; merging pair by pair took 19 s
    assert bpe.decode(ids) == word
    assert bpe._cached.cache_info().currsize == cached

import pytest

from model.presets import K3_RANDOM
from model.tokenizer import SPECIALS, ByteTokenizer

TEXTS = [
    "",
    " ",
    "123",
    "true",
    "Seán 你好 👩‍👩‍👧 \n\t",
    "שלום",
    "\x00\x7f",
    "a\r\nb",
    "\ud800 alone",
    "<|sep|>",
    "é" * 300,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_every_string_round_trips(text):
    t = ByteTokenizer()
    assert t.decode(t.encode(text)) == text


@pytest.mark.parametrize("text", ["<|sep|>", "a[BOS]b", "[EOS][EOS]", "[B[BOS]"])
def test_special_names_are_text_unless_asked(text):
    t = ByteTokenizer()
    assert max(t.encode(text)) < 256
    ids = t.encode(text, specials=True)
    assert max(ids) >= 256
    assert t.decode(ids) == text


def test_pieces_name_bytes_and_specials():
    t = ByteTokenizer()
    first, second = t.pieces([0xE4, t.specials["[BOS]"]])
    assert (first.raw, first.special, second.text, second.special) == (b"\xe4", False, "[BOS]", True)


def test_an_id_out_of_range_is_refused():
    with pytest.raises(ValueError, match="token id 272"):
        ByteTokenizer().decode([272])


def test_the_small_model_knows_exactly_these_ids():
    t, c = ByteTokenizer(), K3_RANDOM
    assert t.vocab == c.vocab == 256 + len(SPECIALS)
    assert (t.specials["[BOS]"], t.specials["[EOS]"], t.specials["[PAD]"]) == (c.bos, c.eos, c.pad)

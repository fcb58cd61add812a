import base64
import json
import sys

import pytest

from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.presets import K3_TINY
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.tokenizers.tokenizer import SPECIALS, printable

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


@pytest.fixture(scope="module", params=["k3-random", "bytes"])
def t(request):
    """The learned tokenizer of the small model, and one in which nothing is merged."""
    if request.param == "bytes":
        return BpeTokenizer([], list(SPECIALS))
    return tokenizer_of("k3-random", K3_TINY.vocab)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_every_string_round_trips(t, text):
    assert t.decode(t.encode(text)) == text


@pytest.mark.parametrize("text", ["<|sep|>", "a[BOS]b", "[EOS][EOS]", "[B[BOS]"])
def test_special_names_are_text_unless_asked(t, text):
    first = min(t.specials.values())
    assert max(t.encode(text)) < first
    ids = t.encode(text, specials=True)
    assert max(ids) >= first
    assert t.decode(ids) == text


def test_tokens_name_bytes_and_specials(t):
    first, second = t.tokens([0xE4, t.specials["[BOS]"]])
    assert (first.raw, first.special, second.text, second.special) == (b"\xe4", False, "[BOS]", True)


def test_an_id_out_of_range_is_refused(t):
    with pytest.raises(ValueError, match=f"token id {t.vocab}"):
        t.decode([t.vocab])


def test_the_small_model_knows_exactly_these_ids():
    c = K3_TINY
    t = tokenizer_of("k3-random", c.vocab)
    assert t.vocab == c.vocab
    names = ("[BOS]", "[EOS]", "[PAD]", "<|media_pad|>")
    assert [t.specials[name] for name in names] == [c.bos, c.eos, c.pad, c.media_pad]


def test_a_token_of_one_character_is_marked():
    t = BpeTokenizer([], list(SPECIALS))
    assert [p.part for p in t.tokens(t.encode("aé\n"))] == [False, True, True, False]
    assert not t.token(t.specials["[BOS]"]).part


def test_tokens_are_one_visible_line():
    assert [printable(raw) for raw in (b"\n\t\r", b"\xe4\xbd", "你 ".encode(), b"\x00", b"a\xff")] == [
        "\\n\\t\\r",
        "\\xe4\\xbd",
        "你 ",
        "\\x00",
        "a\\xff",
    ]


RAW = [
    "中文",
    "English",
    "混合",
    "123",
    "456",
    " world",
    "Hello",
    "'t",
    "don't",
    "\n\n",
    "  ",
    "汉",
    "字",
    "é",
]


@pytest.fixture
def folder(tmp_path):
    """A tiktoken.model of all bytes and some complete words, with two named special tokens."""
    pytest.importorskip("tiktoken", reason="an extra: pip install 'k3scope[tiktoken]'")
    tokens = [bytes([b]) for b in range(256)] + [text.encode() for text in RAW]
    lines = [f"{base64.b64encode(t).decode()} {i}" for i, t in enumerate(tokens)]
    (tmp_path / "tiktoken.model").write_text("\n".join(lines) + "\n")
    named = {"270": {"content": "[BOS]"}, "272": {"content": "<|end_of_msg|>", "special": True}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": named}))
    return tmp_path


@pytest.mark.parametrize("text", [t for t in TEXTS if "\ud800" not in t], ids=range(len(TEXTS) - 1))
def test_tiktoken_strings_round_trip(folder, text):
    t = tokenizer_of(folder, 1000)
    assert t.decode(t.encode(text)) == text


@pytest.mark.parametrize(
    ("text", "pretokens"),
    [
        ("中文English混合", ["中文", "English", "混合"]),
        ("1234561", ["123", "456", "1"]),
        ("Hello world", ["Hello", " world"]),
        ("don't", ["don't"]),
        ("Hello\n\n中文", ["Hello", "\n\n", "中文"]),
    ],
)
def test_kimi_cuts_text_before_it_merges(folder, text, pretokens):
    t = tokenizer_of(folder, 1000)
    assert [p.text for p in t.tokens(t.encode(text))] == [printable(p.encode()) for p in pretokens]


def test_tiktoken_specials_are_text_unless_asked(folder):
    t = tokenizer_of(folder, 526)
    text = "[BOS]Hello<|end_of_msg|><|reserved_token_271|>"
    assert max(t.encode(text)) < 270
    assert t.encode(text, specials=True) == [270, 256 + RAW.index("Hello"), 272, 271]
    assert t.decode(t.encode(text, specials=True)) == text
    assert (t.vocab, len(t.specials)) == (526, 256)


def test_tiktoken_marks_tokens_of_one_character(folder):
    t = tokenizer_of(folder, 1000)
    assert [p.part for p in t.tokens(t.encode("汉\n你"))] == [False, False, True, True, True]


def test_more_ids_than_the_model_knows_are_refused(folder):
    with pytest.raises(ValueError, match="526 ids; the model knows 525"):
        tokenizer_of(folder, 525)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda lines: [*lines, "no rank"], "line 271 is not"),
        (lambda lines: [*lines, "!!!! 270"], "line 271 is not"),
        (lambda lines: lines[:-2] + lines[-1:], "not 0 to 268"),
        (lambda lines: [f"{line.split()[0]} {i}" for i, line in enumerate(lines[1:])], "first 0x00"),
    ],
)
def test_a_ranks_file_that_is_none_is_refused(folder, change, sentence):
    path = folder / "tiktoken.model"
    path.write_text("\n".join(change(path.read_text().splitlines())))
    with pytest.raises(ValueError, match=sentence):
        tokenizer_of(folder, 1000)


def test_without_the_package_its_name_is_reported(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ValueError, match=r"pip install 'k3scope\[tiktoken\]'"):
        tokenizer_of(folder, 1000)


def test_a_model_has_the_tokenizer_of_its_folder_or_of_the_model_it_reads_as(tmp_path, monkeypatch):
    (tmp_path / "k3-random").mkdir()
    BpeTokenizer([], ["[BOS]"]).save(tmp_path / "k3-random" / "tokenizer.json")
    monkeypatch.chdir(tmp_path)  # a folder that happens to have the name is not the model's
    result = [tokenizer_of(name, K3_TINY.vocab) for name in ("k3-random", "k3-tiny")]
    assert result[0].merges == result[1].merges
    assert (result[0].vocab, result[0].specials) == (K3_TINY.vocab, result[1].specials)
    with pytest.raises(ValueError, match="has no tokenizer here"):
        tokenizer_of("kimi-k3", 163_840)
    BpeTokenizer([(104, 101)], ["[BOS]"]).save(tmp_path / "tokenizer.json")
    t = tokenizer_of(tmp_path, 300)
    assert t.encode("he[BOS]", specials=True) == [256, 257]

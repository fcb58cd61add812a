"""A tokenizer's file that is none: one sentence, at once, and no memory."""

import base64
import json
import os
import time
import tracemalloc

import pytest

from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.tokenizers.tiktoken_file import TiktokenTokenizer, read_ranks


def vocabulary(merges=(), specials=("[BOS]",)) -> bytes:
    return json.dumps({"merges": merges, "specials": specials}).encode()


DOUBLING = [[32, 32]] + [[255 + i, 255 + i] for i in range(1, 61)]
BAD = {
    "doubling": (vocabulary(DOUBLING), "merge 12 makes a token of 8,192 bytes"),
    "all tokens": (
        vocabulary([[32, 32], *([255 + i] * 2 for i in range(1, 12)), *[[267, 1]] * 1]),
        "token of",
    ),
    "many long tokens": (vocabulary(DOUBLING[:12] + [[266, 266]] * 9000), "in all"),
    "an id that does not exist": (vocabulary([[32, 99999]]), "merge 0 is no pair of ids below 256"),
    "an id that does not exist yet": (vocabulary([[32, 256]]), "merge 0 is no pair of ids below 256"),
    "a negative id": (vocabulary([[32, -1]]), "merge 0 is no pair"),
    "a float": (vocabulary([[32, 1.0]]), "merge 0 is no pair"),
    "a word": (vocabulary(["ab"]), "merge 0 is no pair"),
    "three": (vocabulary([[1, 2, 3]]), "merge 0 is no pair"),
    "many merges": (vocabulary([[1, 2]] * 140_000), "140,000 merges; at most"),
    "merges of another kind": (vocabulary(7), "are lists"),
    "specials of another kind": (vocabulary([], "abc"), "are lists"),
    "a special that is a number": (vocabulary([], [3]), "names of 1 to 256 letters"),
    "an empty special": (vocabulary([], [""]), "names of 1 to 256 letters"),
    "a long special": (vocabulary([], ["a" * 10**6]), "names of 1 to 256 letters"),
    "a special twice": (vocabulary([], ["a", "a"]), "different names"),
    "nothing": (b"{}", "are lists"),
    "a list": (b"[]", "expected an object"),
    "nested": (b"[" * 100_000, "nested too deeply"),
    "UTF-16": (vocabulary().decode().encode("utf-16"), "not valid JSON"),
    "empty": (b"", "not valid JSON"),
    "large": (b" " * (5 * 2**20), "5,242,880 bytes; expected at most"),
}


def refused(read, path, sentence: str) -> None:
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises(ValueError, match=sentence) as error:
            read(path)
        assert len(str(error.value)) < 300 + len(str(path))
        assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
        assert time.process_time() - begin < 5
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", BAD)
def test_a_bad_tokenizer_json_is_said(name, tmp_path):
    content, sentence = BAD[name]
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    refused(BpeTokenizer.load, path, sentence)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink(path, path)])
@pytest.mark.parametrize("read", [BpeTokenizer.load, read_ranks])
def test_a_tokenizer_that_is_no_file_is_said(make, read, tmp_path):
    make(tmp_path / "file")
    refused(read, tmp_path / "file", "not a file|cannot be read")


def test_tokens_as_long_as_allowed_are_read(tmp_path):
    (tmp_path / "tokenizer.json").write_bytes(vocabulary(DOUBLING[:12]))
    tokenizer = BpeTokenizer.load(tmp_path / "tokenizer.json")
    assert tokenizer.encode(" " * 4096) == [267]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (bytes(range(256)) * 400, "line 1 is not a base64 token"),
        (b"", "256 single bytes have no rank"),
        (base64.b64encode(b"a" * 5000) + b" 0\n", "a token of 5,000 bytes"),
        (b"YQ== " + b"7" * 5000, "line 1 is not a base64 token"),
        (b"A" * (17 * 2**20), "17,825,792 bytes; expected at most"),
    ],
)
def test_bad_ranks_are_said(content, sentence, tmp_path):
    (tmp_path / "tiktoken.model").write_bytes(content)
    refused(read_ranks, tmp_path / "tiktoken.model", sentence)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "expected an object"),
        (b'{"added_tokens_decoder": [1]}', "added_tokens_decoder is no object"),
        (b'{"added_tokens_decoder": {"256": 3}}', "gives id 256 no name of its own"),
        (b'{"added_tokens_decoder": {"256": {"content": [1]}}}', "gives id 256 no name of its own"),
        (
            b'{"added_tokens_decoder": {"256": {"content": "a"}, "257": {"content": "a"}}}',
            "gives id 257 no name of its own",
        ),
        (b'{"pat_str": 7}', "pat_str is no pattern"),
        (b'{"pat_str": "("}', "pat_str"),
    ],
)
def test_a_bad_tokenizer_config_is_said(config, sentence, tmp_path):
    pytest.importorskip("tiktoken")
    ranks = [base64.b64encode(bytes([i])) + b" %d" % i for i in range(256)]
    (tmp_path / "tiktoken.model").write_bytes(b"\n".join(ranks))
    (tmp_path / "tokenizer_config.json").write_bytes(config)
    refused(TiktokenTokenizer.load, tmp_path, sentence)

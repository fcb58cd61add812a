"""A config.json that no model can be made of: one sentence, at once, whatever is in it."""

import json
import os
import time

import pytest

from k3scope.assets import CONFIGS
from k3scope.model.checkpoint.checkpoint import open_checkpoint, read_config
from k3scope.model.config import Config
from k3scope.model.config_limits import LIMITS
from k3scope.model.presets import with_release_padding

WHOLE = [key for key in LIMITS if key != "model_max_length"]  # the release has the other one
NONE = ("num_shared_experts", "first_k_dense_replace", "attn_res_block_size", "num_key_value_heads")
OFFICIAL = (CONFIGS / "kimi-k3.json").read_text()


def edited(half: str = "text_config", **changes) -> bytes:
    raw = json.loads(OFFICIAL)
    parts = {"": raw, "text_config": raw["text_config"], "vision_config": raw["vision_config"]}
    parts["linear"] = raw["text_config"]["linear_attn_config"]
    parts[half] |= changes
    return json.dumps(raw).encode()


BAD = {
    "billions of layers": (
        edited(num_hidden_layers=10**9),
        "num_hidden_layers is 1,000,000,000; at most 4,096",
    ),
    "half a layer": (edited(num_hidden_layers=9.5), "num_hidden_layers is 9.5; expected a whole number"),
    "negative layers": (edited(num_hidden_layers=-4), "num_hidden_layers is -4; expected at least 1"),
    "no layers": (edited(num_hidden_layers=0), "num_hidden_layers is 0; expected at least 1"),
    "wide": (edited(hidden_size=10**12), "hidden_size is 1,000,000,000,000; at most 1,048,576"),
    "thousands of digits": (edited(hidden_size=10**4000), "hidden_size is 10+.*; at most 1,048,576"),
    "too many digits": (edited().replace(b"7168", b"7" * 5000, 1), "Exceeds the limit"),
    "experts": (edited(num_experts=10**8), "num_experts is 100,000,000; at most 65,536"),
    "vocabulary": (edited(vocab_size=2**40), "vocab_size is .*; at most 16,777,216"),
    "layers listed twice": (edited("linear", kda_layers=[1] * 90), "kda_layers names layer 1 twice"),
    "layers that are lists": (edited("linear", kda_layers=[[1], [2]]), r"kda_layers holds \[1\]"),
    "layers beyond": (edited("linear", kda_layers=list(range(1, 900))), "are in both"),
    "layers without end": (edited("linear", kda_layers=[1] * 9000), "kda_layers has 9,000 entries; at most"),
    "NaN": (edited(rms_norm_eps=float("nan")), "NaN is no number"),
    "infinite": (edited(hidden_size=float("inf")), "Infinity is no number"),
    "infinite once read": (edited(rms_norm_eps=7e77).replace(b"7e+77", b"7e777"), "rms_norm_eps is inf"),
    "no vision": (edited("", vision_config=3), "vision_config is 3; expected an object"),
    "vision without end": (edited("vision_config", vt_num_hidden_layers=10**7), "at most 4,096"),
    "merged by nothing": (
        edited("vision_config", merge_kernel_size=[None, None]),
        "merge_kernel_size is None",
    ),
    "merged by lists": (edited("vision_config", merge_kernel_size=[[2], [2]]), r"merge_kernel_size is \[2\]"),
    "dtype": (edited("", dtype=["bfloat16"]), "expected one of bfloat16"),
    "nested": (b"[" * 60_000, "nested too deeply"),
    "nested and larger": (b"[" * 10**6, "expected at most 100,000"),
    "UTF-16": (OFFICIAL.encode("utf-16"), "expected text in UTF-8"),
    "BOM": (b"\xef\xbb\xbf" + OFFICIAL.encode(), "UTF-8 BOM"),
    "lists without end": (b"[" + b"[]," * 5 * 10**6 + b"[]]", "expected at most 100,000"),
    "numbers without end": (b"[" + b"7," * 7 * 10**6 + b"7]", "expected at most 1,000,000"),
    "larger than any": (b" " * (2**24 + 1), "16,777,217 bytes; expected at most 16,777,216"),
    "more choices than experts": (
        edited(num_experts_per_token=896),
        "num_experts_per_token is 896, but num_experts is 896",
    ),
    "more dense layers than layers": (
        edited(first_k_dense_replace=99),
        "first_k_dense_replace is 99, but num_hidden_layers is 93",
    ),
    "fewer keys than queries": (
        edited(num_key_value_heads=8),
        "num_key_value_heads is 8, but num_attention_heads is 96",
    ),
    "a token that is none": (
        edited(bos_token_id=163840),
        "bos_token_id is 163,840, but vocab_size is 163,840",
    ),
    "an image that is none": (
        edited("", media_placeholder_token_id=10**6),
        "media_placeholder_token_id is 1,000,000, but vocab_size",
    ),
    "half a token": (edited(eos_token_id=[163586, 0.5]), "eos_token_id is 0.5; expected a whole number"),
    "tied and not": (
        edited(tie_word_embeddings=True),
        "tie_word_embeddings is false, but in text_config it is true",
    ),
    "tied in words": (
        edited(tie_word_embeddings="yes"),
        "tie_word_embeddings is 'yes'; expected true or false",
    ),
    "decay upwards": (edited("linear", gate_lower_bound=5.0), "gate_lower_bound is 5.0; expected a negative"),
    "vision heads": (
        edited("vision_config", vt_num_attention_heads=11),
        "qkv_hidden_size is 1,536, but vt_num_attention_heads is 11",
    ),
    "two names of one size": (
        edited(num_local_experts=8),
        "num_experts is 896 and num_local_experts is 8; they are two names",
    ),
    "empty": (b"", "not valid JSON"),
    "zeros": (b"\0" * 100, "not valid JSON"),
    "a list": (b"[]", "expected an object"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_config_is_said_in_one_short_sentence_at_once(name, tmp_path):
    content, sentence = BAD[name]
    (tmp_path / "config.json").write_bytes(content)
    begin = time.process_time()
    for read in (read_config, open_checkpoint):
        with pytest.raises(ValueError, match=sentence) as error:
            read(tmp_path)
        assert len(str(error.value)) < 300 + len(str(tmp_path))
        assert "\n" not in str(error.value)
    assert time.process_time() - begin < 2


def section_of(raw: dict, key: str) -> dict:
    """The part of the release's config.json that has a key."""
    text = raw["text_config"]
    parts = (text, text["linear_attn_config"], raw["vision_config"], raw)
    return next(part for part in parts if key in part)


@pytest.mark.parametrize("key", WHOLE)
def test_a_whole_number_is_one_however_it_is_written(key):
    raw = json.loads(OFFICIAL)
    section = section_of(raw, key)
    square = isinstance(section[key], list)  # merge_kernel_size
    value = section[key][0] if square else section[key]

    def read(changed):
        section[key] = [changed, changed] if square else changed
        return Config.from_official(raw)

    assert read(float(value)) == Config.from_official(json.loads(OFFICIAL))
    for wrong, sentence in (
        (value + 0.5, "expected a whole number"),
        (str(value), "expected a number"),
        (True, "expected a number"),
        ({}, "expected a number"),
        (-2, "expected at least"),
        (LIMITS[key] + 1, "at most"),
        (1e300, "at most"),
    ):
        with pytest.raises(ValueError, match=f"config.json: {key} is .*{sentence}"):
            read(wrong)
    if key not in NONE and not key.endswith(("os_token_id", "pad_token_id")):
        with pytest.raises(ValueError, match=f"config.json: {key} is None; expected a number"):
            read(None)


def _folder(path):
    path.mkdir()


def _loop(path):
    path.symlink_to(path.name)


def _large(path):
    with path.open("wb") as file:
        file.truncate(2**40)


def _secret(path):
    path.symlink_to("/proc/self/mem")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_folder, "not a file"),
        (os.mkfifo, "not a file"),
        (_loop, "config.json: "),
        (_large, "1,099,511,627,776 bytes; expected at most"),
        (_secret, "cannot be read|not valid JSON"),
        (lambda path: path.symlink_to("/dev/zero"), "not a file"),
        (lambda path: path.symlink_to("nowhere"), "no such file"),
    ],
)
def test_what_is_no_readable_file_is_said(make, sentence, tmp_path):
    make(tmp_path / "config.json")
    with pytest.raises(ValueError, match=sentence):
        read_config(tmp_path)


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_real_configs_are_within_the_limits(file):
    config = Config.from_official(json.loads(file.read_text()))
    assert read_config(file) == with_release_padding(config)

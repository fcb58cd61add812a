"""A config.json that no model can be made of: one sentence, at once, whatever is in it."""

import json
import os
import time

import pytest

from k3scope.assets import CONFIGS
from k3scope.model.checkpoint.checkpoint import open_checkpoint, read_config
from k3scope.model.config import Config
from k3scope.model.presets import with_release_padding

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
        "num_hidden_layers is 1,000,000,000; at most 128",
    ),
    "half a layer": (edited(num_hidden_layers=9.5), "num_hidden_layers is 9.5; expected a whole number"),
    "negative layers": (edited(num_hidden_layers=-4), "must name each of the layers"),
    "no layers": (edited(num_hidden_layers=0), "must name each of the layers"),
    "wide": (edited(hidden_size=10**12), "hidden_size is 1,000,000,000,000; at most 262,144"),
    "thousands of digits": (edited(hidden_size=10**4000), "hidden_size is 10+.*; at most 262,144"),
    "too many digits": (edited().replace(b"7168", b"7" * 5000, 1), "Exceeds the limit"),
    "experts": (edited(num_experts=10**8), "num_experts is 100,000,000; at most 16,384"),
    "experts of all layers": (edited(num_experts=2**13), "761,856 experts in all layers"),
    "vocabulary": (edited(vocab_size=2**40), "vocab_size is .*; at most 4,194,304"),
    "layers listed twice": (edited("linear", kda_layers=[1] * 9000), "must name each of the layers"),
    "layers that are lists": (edited("linear", kda_layers=[[1], [2]]), r"kda_layers holds \[1\]"),
    "layers beyond": (edited("linear", kda_layers=list(range(1, 9000))), "are in both"),
    "NaN": (edited(rms_norm_eps=float("nan")), "NaN is no number"),
    "infinite": (edited(hidden_size=float("inf")), "Infinity is no number"),
    "infinite once read": (edited(rms_norm_eps=7e77).replace(b"7e+77", b"7e777"), "rms_norm_eps is inf"),
    "no vision": (edited("", vision_config=3), "vision_config is 3; expected an object"),
    "vision without end": (edited("vision_config", vt_num_hidden_layers=10**7), "at most 128"),
    "merged by nothing": (
        edited("vision_config", merge_kernel_size=[None, None]),
        "merge_kernel_size is None",
    ),
    "merged by lists": (edited("vision_config", merge_kernel_size=[[2], [2]]), r"merge_kernel_size is \[2\]"),
    "quantization": (
        edited(quantization_config="mxfp4"),
        "quantization_config is 'mxfp4'; expected an object",
    ),
    "dtype": (edited("", dtype=["bfloat16"]), "expected one of bfloat16"),
    "nested": (b"[" * 60_000, "nested too deeply"),
    "nested and larger": (b"[" * 100_000, "100,000 bytes; expected at most 65,536"),
    "UTF-16": (OFFICIAL.encode("utf-16"), "expected text in UTF-8"),
    "BOM": (b"\xef\xbb\xbf" + OFFICIAL.encode(), "UTF-8 BOM"),
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

"""Files with random changes: whatever is in them, only ValueError comes out."""

import io
import json
import random
import struct

import pytest
from PIL import Image

from k3scope.app.runs.uploads import FORMATS, accept
from k3scope.assets import CONFIGS, MODELS
from k3scope.model.checkpoint.checkpoint import read_config
from k3scope.model.files.safetensors_shard import Shard
from k3scope.model.tokenizers.bpe import BpeTokenizer

ODD = (
    b"", b"-", b"9" * 30, b"1e400", b"null", b"true", b"[]", b"{}", b'""', b"NaN", b"\xff\xfe", b"\0", b".5",
    b",", b'"a":', b"[[", b"}}", b"\\ud800",
)  # fmt: skip
JSON_CASES, IMAGE_CASES = 3000, 2000
DATA = 12 // 4 * 6 * (4 + 2 + 1 + 8)  # bytes of the tensors below: a file has no others


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, removed, repeated, or replaced by what JSON can also hold."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice((1, 1, 2, 8, 64)))
        piece = bytes(out[at:end])
        out[at:end] = rng.choice((rng.randbytes(end - at), b"", piece * 2, rng.choice(ODD), b"%d" % 2**62))
    return bytes(out)


def config(path, data):
    path.with_name("config.json").write_bytes(data)
    return read_config(path.with_name("config.json"))


def tokenizer(path, data):
    path.write_bytes(data)
    return BpeTokenizer.load(path).encode("the quick brown fox")


def shard(path, data):
    path.write_bytes(struct.pack("<Q", len(data)) + data + bytes(DATA))
    opened = Shard(path)
    return [opened.tensor(name).shape for name in opened.headers]


def _header() -> bytes:
    types = ("F32", "BF16", "U8", "I64")
    sizes = (4, 2, 1, 8)
    at, entries = 0, {"__metadata__": {"format": "pt"}}
    for i in range(12):
        stop = at + 6 * sizes[i % 4]
        entries[f"layers.{i}"] = {"dtype": types[i % 4], "shape": [2, 3], "data_offsets": [at, stop]}
        at = stop
    return json.dumps(entries).encode()


SEEDS = {
    "config": (config, (CONFIGS / "kimi-k3.json").read_bytes()),
    "tokenizer": (
        tokenizer,
        (MODELS / "k3-tiny" / "tokenizer.json").read_bytes()[:2000].rpartition(b",\n")[0] + b"]}",
    ),
    "header": (shard, _header()),
}


def outcomes(read, data: bytes, cases: int, rng: random.Random) -> dict[str, int]:
    """How many cases were read and refused; any other exception is the test's failure."""
    counts = {"read": 0, "refused": 0}
    for _ in range(cases):
        try:
            read(mutated(data, rng))
            counts["read"] += 1
        except ValueError as error:
            counts["refused"] += 0 < len(str(error)) < 1500
    return counts


@pytest.mark.sweep
@pytest.mark.parametrize("kind", SEEDS)
def test_of_changed_json_only_sentences_come_out(kind, tmp_path):
    read, data = SEEDS[kind]
    read(tmp_path / "model", data)
    counts = outcomes(lambda raw: read(tmp_path / "model", raw), data, JSON_CASES, random.Random(14))
    assert counts["read"] + counts["refused"] == JSON_CASES
    assert counts["refused"] > JSON_CASES // 4


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow warns of tags it passes over
@pytest.mark.parametrize("kind", FORMATS)
def test_of_changed_pictures_only_sentences_come_out(kind):
    rng = random.Random(14)
    picture = Image.frombytes("RGB", (24, 18), rng.randbytes(24 * 18 * 3))
    out = io.BytesIO()
    picture.save(out, kind)
    assert accept("x", out.getvalue()).size == (24, 18)
    counts = outcomes(lambda raw: accept("x", raw), out.getvalue(), IMAGE_CASES, rng)
    assert counts["read"] + counts["refused"] == IMAGE_CASES
    assert min(counts.values()) > 0

"""Each file of a checkpoint folder, when it is not what it should be: one sentence, soon."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.model import load, open_checkpoint
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.files.json_file import check_depth, parse_json

INDEX = "model.safetensors.index.json"
IDS = torch.tensor([[3, 1, 4, 1, 5]])
FILES = (
    "config.json",
    "model.safetensors",
    INDEX,
    "tokenizer.json",
    "tokenizer_config.json",
    "tiktoken.model",
)
DEEP = 100_000


@pytest.fixture
def folder(data, tmp_path):
    """The oracle checkpoint with a tokenizer of each kind in pieces."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(data / "a_mix13" / name, tmp_path / name)
    (tmp_path / "tokenizer_config.json").write_text("{}")
    return tmp_path


def opened(folder, file) -> None:
    if file in ("tokenizer_config.json", "tiktoken.model") and not (folder / "tiktoken.model").exists():
        lines = [base64.b64encode(bytes([i])) + b" %d" % i for i in range(256)]
        (folder / "tiktoken.model").write_bytes(b"\n".join(lines))
    if file.startswith("to") or file.startswith("ti"):
        tokenizer_of(folder, 10**6)
    else:
        open_checkpoint(folder)


def refused(folder, file) -> str:
    """What is said of it."""
    if file.startswith("ti") or file == "tokenizer_config.json":
        pytest.importorskip("tiktoken")
    begin = time.process_time()
    with pytest.raises(ValueError, match=file.partition(".")[0]) as error:
        opened(folder, file)
    assert time.process_time() - begin < 2
    sentence = str(error.value)
    assert "\n" not in sentence
    assert len(sentence) < 400 + len(str(folder))
    return sentence


@pytest.mark.parametrize("file", FILES)
def test_a_folder_in_the_place_of_a_file_is_said(file, folder):
    (folder / file).unlink(missing_ok=True)
    (folder / file).mkdir()
    sentence = refused(folder, file)
    assert file in sentence
    assert "not a file; expected a regular one" in sentence


@pytest.mark.parametrize("bracket", [b"[", b'{"a":', b'[{"weight_map":'])
@pytest.mark.parametrize("file", FILES)
def test_deep_json_is_said(bracket, file, folder):
    (folder / file).write_bytes(bracket * DEEP)
    assert file in refused(folder, file)


@pytest.mark.parametrize(
    "text", [b"null", b"[]", b"3", b'"a"', b"", b"{", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"true"]
)
@pytest.mark.parametrize("file", FILES)
def test_json_of_another_type_is_said(text, file, folder):
    (folder / file).write_bytes(text)
    assert file in refused(folder, file)


@pytest.mark.parametrize("file", FILES)
def test_a_huge_file_is_said(file, folder):
    (folder / file).write_bytes(b"")
    os.truncate(folder / file, 2**40)
    assert file in refused(folder, file)


@pytest.mark.parametrize("depth", [200, 201])
@pytest.mark.parametrize("text", ["[%s]", '{"a": %s}', '["\\"[[[\\\\", %s, "]]]"]'])
def test_json_may_be_200_levels_deep(text, depth):
    value = "1"
    for _ in range(depth):
        value = text % value
    if depth > 200:
        with pytest.raises(ValueError, match="nested too deeply; expected at most 200 levels"):
            parse_json(value)
        with pytest.raises(ValueError, match="nested too deeply; expected at most 200 levels"):
            parse_json(value.encode())
    else:
        assert parse_json(value) == parse_json(value.encode()) == json.loads(value)


def test_brackets_in_strings_are_no_depth():
    text = json.dumps([{"a" * n: "[" * n + '\\"' + "{" * n} for n in range(300)])
    check_depth(text)
    check_depth(text.encode())
    check_depth("[" + "[],{}," * 10**5 + "1]")
    with pytest.raises(ValueError, match="at most 2 levels"):
        check_depth('["[", [["]"]]]', 2)


def moved(folder, places: list[str]) -> None:
    """Deal the tensors out to files at these places, with an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    where = {name: places[i % len(places)] for i, name in enumerate(sorted(tensors))}
    for place in places:
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        save_file({n: tensors[n] for n, p in where.items() if p == place}, folder / place)
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))


@pytest.mark.parametrize(
    "places",
    [
        ["a.safetensors", "any name at all.safetensors"],
        ["shards/model-00001-of-00002.safetensors", "shards/deeper/é.safetensors"],
        ["./a.safetensors", "b//c.safetensors", "b/./d.safetensors"],
        ["..a.safetensors", "a..safetensors"],
    ],
)
def test_shards_lie_where_the_index_says(places, folder, data):
    moved(folder, places)
    assert torch.equal(load(str(folder))(IDS), load(str(data / "a_mix13"))(IDS))


def test_symlinks_of_shards_and_folders_are_followed(folder, data, tmp_path_factory):
    moved(folder, ["a.safetensors", "sub/b.safetensors"])
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("a.safetensors", "sub"):
        shutil.move(folder / name, elsewhere / name)
        (folder / name).symlink_to(elsewhere / name)
    assert torch.equal(load(str(folder))(IDS), load(str(data / "a_mix13"))(IDS))


def test_an_absent_shard_in_a_subfolder_is_named(folder):
    moved(folder, ["a.safetensors", "sub/b.safetensors"])
    shutil.rmtree(folder / "sub")
    assert open_checkpoint(folder).folder.absent == ["sub/b.safetensors"]


MEASURE = """
import sys, time
from pathlib import Path
from k3scope.model.files.checkpoint_folder import Folder

def peak():
    return int(next(l for l in open("/proc/self/status") if "VmHWM" in l).split()[1]) / 1024

idle, begin, said = peak(), time.process_time(), "nothing"
try:
    said = len(Folder(Path(sys.argv[1])).weight_map)
except ValueError as error:
    pass
print(said, time.process_time() - begin, peak() - idle)
"""


@pytest.mark.sweep
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize(
    "entry", [b" ", b"[", b'"a":1,', b'"\xf0\x9f\x98\x80","a",', b'"%d": "x.safetensors",']
)
def test_an_index_of_400_megabytes_takes_bounded_time_and_memory(entry, tmp_path):
    with (tmp_path / INDEX).open("wb") as file:
        file.write(b'{"metadata": [' if b"," in entry and b":" not in entry else b'{"weight_map": {')
        for i in range(400):
            lines = 2**20 // len(entry)
            numbers = range(i * lines, (i + 1) * lines)
            file.write(b"".join(entry % n for n in numbers) if b"%d" in entry else entry * lines)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, tmp_path], capture_output=True, text=True, check=True
    )
    said, seconds, megabytes = done.stdout.split()
    assert (said, float(seconds) < 3, float(megabytes) < 300) == ("nothing", True, True), done.stdout

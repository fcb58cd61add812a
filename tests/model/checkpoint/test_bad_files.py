"""Weights that are none: one sentence, in bounded time and memory."""

import json
import os
import struct
import subprocess
import sys
import time

import pytest

from k3scope.model.files.checkpoint_folder import Folder
from k3scope.model.files.safetensors_header import MOST_TENSORS
from k3scope.model.files.safetensors_shard import Shard

INDEX = "model.safetensors.index.json"


def file(header, data: int = 64, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


def tensor(start=0, stop=8, shape=(2,), dtype="F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


def names(count: int, name: str = "a%d") -> bytes:
    entry = b'":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return b"{" + b",".join(b'"' + name.encode() % i + entry for i in range(count)) + b"}"


BAD = {
    "overlap": (file({"a": tensor(), "b": tensor(4, 12)}), "a and b lie on the same bytes"),
    "all alike": (file({n: tensor() for n in "abc"}), "lie on the same bytes"),
    "negative offsets": (file({"a": tensor(-8, 0)}), "a has data_offsets that are no two whole numbers"),
    "float offsets": (file({"a": tensor(0.0, 8.0)}), "a has data_offsets that are no two whole numbers"),
    "true as an offset": (file({"a": tensor(True, 9)}), "a has data_offsets that are no two whole numbers"),
    "one offset": (
        file({"a": tensor() | {"data_offsets": [0]}}),
        "a has data_offsets that are no two whole numbers",
    ),
    "no offsets": (file({"a": {"dtype": "F32", "shape": [2]}}), "a has no dtype, shape and data_offsets"),
    "reversed offsets": (file({"a": tensor(8, 0)}), "a has data_offsets that end 8 bytes before they begin"),
    "beyond the file": (file({"a": tensor(800, 808)}), "not a whole safetensors file"),
    "far beyond the file": (file({"a": tensor(0, 4 * 10**13, [10**13])}), "not a whole safetensors file"),
    "beyond all numbers": (
        file({"a": tensor(0, 10**30)}),
        "a has data_offsets that are no two whole numbers",
    ),
    "dtype": (file({"a": tensor(dtype="F3")}), "a has dtype 'F3'; expected one of"),
    "dtype of another kind": (file({"a": tensor(dtype=[1])}), "a has dtype \\[1\\]; expected one of"),
    "shape": (file({"a": tensor(shape=[3])}), "a has 8 bytes, not those of its shape"),
    "negative shape": (file({"a": tensor(shape=[-1, -2])}), "a has a shape that is no list of whole numbers"),
    "float shape": (file({"a": tensor(shape=[2.0])}), "a has a shape that is no list of whole numbers"),
    "a shape of many axes": (file({"a": tensor(shape=[1] * 99)}), "a has a shape of 99 axes; at most 64"),
    "entry of another kind": (file({"a": 3}), "a has no dtype, shape and data_offsets"),
    "a list": (file([]), "expected '{'"),
    "a name twice": (file(names(1)[:-1] + b"," + names(1)[1:]), "a name stands twice"),
    "long name": (file({"a" * 10**5: tensor()}), "a name of 100,000 letters"),
    "nested": (file(b"[" * 100_000), "not a whole safetensors file"),
    "many names": (file(names(MOST_TENSORS + 1)), "more than 200,000 tensors|over 201,000 times"),
    "a million names": (file(names(1_200_000)), "not a whole safetensors file"),
    "lists": (file(b"[" + b"[]," * 10**7 + b"[]]"), "expected '{'"),
    "numbers": (file(b"[" + b"7," * 10**7 + b"7]"), "expected '{'"),
    "not ASCII": (file(b'{"' + "é".encode() * 10**7 + b'": 0}'), "a value of over 4,194,304 letters"),
    "UTF-16": (file('{"a": 1}'.encode("utf-16")), "expected text in UTF-8"),
    "header length": (file({}, length=10**18), "not a whole safetensors file"),
    "header length of all ones": (file({}, length=2**64 - 1), "not a whole safetensors file"),
    "empty": (b"", "not a whole safetensors file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_said_in_one_sentence_at_once(name, tmp_path):
    content, sentence = BAD[name]
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    begin = time.process_time()
    with pytest.raises(ValueError, match=sentence) as error:
        Shard(path)
    assert time.process_time() - begin < 5
    assert len(str(error.value)) < 300 + len(str(path))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
@pytest.mark.parametrize("name", ["model.safetensors", INDEX])
def test_weights_that_are_no_file_are_said(make, name, tmp_path):
    make(tmp_path / name)
    with pytest.raises(ValueError, match="not a file"):
        Folder(tmp_path)


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        ({"weight_map": {"a": "../x.safetensors"}}, "is no file name in this folder"),
        ({"weight_map": {"a": "/etc/x.safetensors"}}, "is no file name in this folder"),
        ({"weight_map": {"a": "x" * 5000 + ".safetensors"}}, "is no file name in this folder"),
        ({"weight_map": {"a": "x\0.safetensors"}}, "is no file name in this folder"),
        ({"weight_map": {"a" * 5000: "x.safetensors"}}, "a name of 5,000 letters; expected at most 1,024"),
        ({"weight_map": {str(i): f"{i}.safetensors" for i in range(20_000)}}, "more than 10,000 files"),
        ({"weight_map": {"a": "a/../../x.safetensors"}}, "is no file name in this folder"),
        ({"weight_map": {"a": "..\\x.safetensors"}}, "is no file name in this folder"),
        ({"weight_map": {"a": "C:x.safetensors"}}, "is no file name in this folder"),
        ({"weight_map": {"a": ["x.safetensors"]}}, r"a is in \['x.safetensors'\]; expected the name of a"),
        ({"weight_map": {"a": None}}, "a is in null; expected the name of a .safetensors file"),
        ({"weight_map": {"a": ""}}, "a is in ''; expected the name of a .safetensors file"),
        ({"weight_map": {"a": 3}}, "a is in 3; expected the name of a .safetensors file"),
        ({"weight_map": {"a": False}}, "a is in False; expected the name of a .safetensors file"),
        ({"weight_map": {"a": {}}}, "a is in {}; expected the name of a .safetensors file"),
        ({"weight_map": {"a": "x.bin"}}, "x.bin is no safetensors file: a pickle"),
        ({"weight_map": None}, "expected '{'"),
        ({"weight_map": ["a"]}, "expected '{'"),
        ({}, "no weight_map"),
        ([], "expected '{'"),
        (b'{"weight_map": {}, "weight_map": {}}', "weight_map stands twice"),
        (b'{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}', "a is in both x.s.* and y.s"),
        (b'{"weight_map": {"a": "x.safetensors"', "not valid JSON"),
        (b'{"weight_map": {}} x', "more follows behind its end"),
        (b'{"metadata": ' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
        (b'{"metadata": ' + b"[" * 10**6, "nested too deeply"),
        (b"[" * 100_000, "expected '{'"),
        (b'{"weight_map":' + names(10**6) + b"}", "expected the name of a .safetensors file"),
        (b"\xff", "expected text in UTF-8"),
        (b"", "not an index of safetensors files"),
    ],
)
def test_a_bad_index_is_said_in_one_sentence_at_once(index, sentence, tmp_path):
    (tmp_path / INDEX).write_bytes(index if isinstance(index, bytes) else json.dumps(index).encode())
    begin = time.process_time()
    with pytest.raises(ValueError, match=sentence) as error:
        Folder(tmp_path)
    assert time.process_time() - begin < 5
    assert len(str(error.value)) < 400 + len(str(tmp_path))


def test_an_index_of_absent_files_names_them(tmp_path):
    (tmp_path / INDEX).write_text('{"weight_map": {"a": "x.safetensors"}}')
    folder = Folder(tmp_path)
    assert (folder.absent, folder.files, folder.header("a")) == (["x.safetensors"], [], None)


MEASURE = """
import sys, time
from pathlib import Path
from k3scope.model.files.safetensors_shard import Shard

def peak():
    return int(next(l for l in open("/proc/self/status") if "VmHWM" in l).split()[1]) / 1024

idle, begin = peak(), time.process_time()
try:
    print(len(Shard(Path(sys.argv[1])).headers))
except ValueError as error:
    print(0)
print(time.process_time() - begin, peak() - idle)
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="reads the peak of memory from /proc")
@pytest.mark.parametrize(
    ("content", "count"),
    [
        (file(names(200_000, "model.layers.1.block_sparse_moe.experts.%d.w1.weight_packed"), 0), 200_000),
        (file(names(1_200_000)), 0),
        (file(b"[" + b"[]," * 10**7 + b"[]]"), 0),
        (file(b'{"' + b"\\ud83d\\ude00" * 4_000_000 + b'": 0}'), 0),
    ],
    ids=["200,000 names", "1,200,000 names", "lists", "escapes"],
)
def test_a_header_takes_bounded_time_and_memory(content, count, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    done = subprocess.run([sys.executable, "-c", MEASURE, path], capture_output=True, text=True, check=True)
    read, seconds, megabytes = map(float, done.stdout.split())
    assert read == count
    assert (seconds < 5, megabytes < 600) == (True, True), done.stdout

"""A checkpoint without its numbers: written, read back, counted, drawn, compared; and files that are none."""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.app import models
from k3scope.app.cli import main
from k3scope.model import config_of, load, open_checkpoint, save_pretrained
from k3scope.model.checkpoint import model_registry
from k3scope.model.files.checkpoint_folder import Folder
from k3scope.model.files.headers_file import HeadersFile
from k3scope.model.init import random_model
from k3scope.model.presets import K3_TINY
from k3scope.model.quantization.quantization import MXFP4

INDEX = "model.safetensors.index.json"


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    monkeypatch.setattr(model_registry, "REGISTERED", registry := {})
    for module in ("k3scope.model.loading", "k3scope.app.models"):
        monkeypatch.setattr(f"{module}.REGISTERED", registry)


@pytest.fixture(scope="module")
def shards(tmp_path_factory) -> Path:
    """A small model in the storage of the release, in several files."""
    c = replace(K3_TINY, kinds=("kda", "mla", "kda"), latent=64, expert_dim=96, quantization=MXFP4)
    path = tmp_path_factory.mktemp("shards")
    save_pretrained(random_model(c), path, torch.bfloat16, packed=True, shard_bytes=600_000)
    return path


@pytest.fixture(scope="module")
def whole(shards, tmp_path_factory) -> Path:
    """Its headers."""
    return written(shards, tmp_path_factory.mktemp("headers"))


@pytest.fixture
def part(shards, tmp_path) -> Path:
    """A folder that lacks the second file."""
    folder = tmp_path / "part"
    shutil.copytree(shards, folder)
    sorted(folder.glob("*.safetensors"))[1].unlink()
    return folder


def written(folder: Path, where: Path) -> Path:
    assert main(["headers", str(folder), "--out", str(where / "small.json")]) == 0
    return where / "small.json"


def said(capsys, *argv: str) -> str:
    """The sentence of a command that ends with status 2."""
    capsys.readouterr()
    assert main(list(argv)) == 2
    return capsys.readouterr().err


def counted(capsys, model) -> dict:
    capsys.readouterr()
    assert main(["params", str(model), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def edited(whole: Path, tmp_path: Path, change) -> Path:
    """Headers with one thing changed; `change(all, first file)`."""
    raw = json.loads(whole.read_text())
    change(raw, raw["files"][min(raw["files"])])
    out = tmp_path / "edited.json"
    out.write_text(json.dumps(raw))
    return out


def test_headers_are_those_of_the_folder(shards, whole):
    folder, headers = Folder(shards), HeadersFile(whole)
    assert (headers.weight_map, headers.files, headers.absent) == (folder.weight_map, folder.files, [])
    assert all(headers.header(name) == folder.header(name) for name in folder.weight_map)
    assert headers.config == json.loads((shards / "config.json").read_text())


def test_headers_say_what_they_are_and_are_small(shards, tmp_path, capsys):
    out = written(shards, tmp_path)
    line = capsys.readouterr().out
    stored = sum(t.nbytes for file in shards.glob("*.safetensors") for t in load_file(file).values())
    tensors = len(Folder(shards).weight_map)
    assert f"{tensors:,} tensors of {stored:,} bytes in {len(Folder(shards).files)} files" in line
    assert out.stat().st_size < 100 * tensors


def test_a_model_of_one_file_has_headers(data, tmp_path, capsys):
    small = written(data / "a_mix13", tmp_path)
    assert counted(capsys, small)["total_params"] == counted(capsys, data / "a_mix13")["total_params"]


def test_headers_are_counted_as_the_folder_is(shards, whole, capsys):
    ours, theirs = counted(capsys, whole), counted(capsys, shards)
    assert {k: v for k, v in ours.items() if k != "model"} == {
        k: v for k, v in theirs.items() if k != "model"
    }
    assert main(["params", str(whole)]) == 0
    assert "as its headers say; no tensor is missing" in capsys.readouterr().out


def test_storage_is_that_of_the_headers(shards, tmp_path, capsys):
    folder = tmp_path / "wide"
    shutil.copytree(shards, folder)
    for file in folder.glob("*.safetensors"):
        save_file({n: t.float() if t.is_floating_point() else t for n, t in load_file(file).items()}, file)
    found, narrow = counted(capsys, written(folder, tmp_path)), counted(capsys, shards)
    floats = sum(n for dtype, n in narrow["tensors_by_dtype"].items() if dtype != "U8")
    assert found["tensors_by_dtype"] == {"F32": floats, "U8": narrow["tensors_by_dtype"]["U8"]}
    assert found["checkpoint_bytes"] == sum(
        h.stop - h.start for f in Folder(folder).files for h in Folder(folder).shard(f).headers.values()
    )
    assert found["total_params"] == narrow["total_params"]


def test_headers_are_drawn_and_compared(whole, tmp_path, capsys):
    assert main(["export", "--model", str(whole), "--out", str(tmp_path / "x.svg")]) == 0
    assert main(["compare", str(whole), "k3-random", "--format", "json"]) == 0


def test_an_absent_file_keeps_its_names(part, tmp_path, capsys):
    small = written(part, tmp_path)
    gone = Folder(part).absent
    assert f"1 files, {gone[0]}" in capsys.readouterr().out
    here, there = open_checkpoint(small), open_checkpoint(part)
    assert (here.folder.absent, here.folder.weight_map) == (gone, there.folder.weight_map)
    assert (here.missing, here.complete_layers) == (there.missing, there.complete_layers)
    assert "are missing" in counted(capsys, small)["problem"]
    assert gone[0] in said(capsys, "generate", str(small), "--prompt", "a")


def test_absent_files_without_an_index_are_missing_tensors(part, tmp_path):
    (part / INDEX).unlink()
    here, there = open_checkpoint(written(part, tmp_path)), open_checkpoint(part)
    assert here.missing == there.missing != ()


def test_the_menu_says_that_only_headers_are_here(whole, part, tmp_path):
    models.add(f"small={whole}")
    assert models.why_not_runnable("small") == "there are no weights, only their headers"
    assert config_of("small") == config_of(str(whole))
    assert "small" in models.drawn()
    assert "small" in models.compared()
    models.add(f"small-part={written(part, tmp_path)}")
    why = models.why_not_runnable("small-part")
    assert why.startswith("there are no weights, only their headers: ")
    assert "tensors are missing" in why
    assert str(tmp_path) not in why


def test_headers_do_not_run(whole, tmp_path, capsys):
    sentence = "holds the headers of a checkpoint, none of its numbers; name the folder that has them"
    with pytest.raises(ValueError, match=sentence):
        load(str(whole))
    (tmp_path / "text").write_text("a")
    out = ["--out", str(tmp_path / "x.npz")]
    for command in (
        ["generate", str(whole), "--prompt", "a"],
        ["score", str(whole), "--text-file", str(tmp_path / "text")],
        ["trace", str(whole), "--ids", "1,2", "--out", str(tmp_path / "x.safetensors")],
        ["lab", "a", str(whole), "--view", "routing", *out],
    ):
        assert sentence in said(capsys, *command), command


def test_names_of_another_tool_are_known(shards, tmp_path, capsys):
    folder = tmp_path / "other"
    folder.mkdir()
    shutil.copy(shards / "config.json", folder)
    for file in shards.glob("*.safetensors"):
        tensors = {n.removeprefix("language_model."): t for n, t in load_file(file).items()}
        save_file(tensors, folder / file.name)
    assert counted(capsys, written(folder, tmp_path)) | {"model": ""} == counted(capsys, shards) | {
        "model": ""
    }


def _kind(raw, file, value):
    file["kinds"][0] = value


def _first(file) -> tuple[dict, str]:
    group = next(iter(file["tensors"].values()))
    return group, next(iter(group))


def _place(file, value):
    group, name = _first(file)
    group[name] = value


CHANGES = {
    "version": (lambda a, f: a.update(k3scope_headers=2), "k3scope_headers is 2; this program reads 1"),
    "no files": (lambda a, f: a.pop("files"), "expected config and files"),
    "no config": (lambda a, f: a.pop("config"), "expected config and files"),
    "config null": (lambda a, f: a.update(config=None), "expected an object with the official keys"),
    "config": (lambda a, f: a["config"]["text_config"].pop("hidden_size"), "'hidden_size' is missing"),
    "files null": (lambda a, f: a.update(files=None), "expected '{'"),
    "file null": (lambda a, f: a["files"].update({"a.safetensors": None}), "a.safetensors has no tensors"),
    "outside": (lambda a, f: a["files"].update({"../a.safetensors": f}), "is no file name in this folder"),
    "pickle": (lambda a, f: a["files"].update({"a.bin": f}), "a pickle"),
    "in two files": (lambda a, f: a["files"].update({"z.safetensors": f}), "is in both"),
    "no size": (lambda a, f: f.update(bytes=-1), "no whole numbers bytes and header_bytes"),
    "too small": (lambda a, f: f.update(bytes=f["bytes"] - 1), "its header describes"),
    "too large": (
        lambda a, f: f.update(bytes=f["bytes"] + 1),
        "1 bytes behind the last tensor belong to none",
    ),
    "no kinds": (lambda a, f: f.pop("kinds"), "no list of kinds"),
    "dtype": (lambda a, f: _kind(a, f, ["F3", [1]]), "has dtype 'F3'; expected one of"),
    "shape": (lambda a, f: _kind(a, f, ["F32", [-1]]), "a shape that is no list of whole numbers"),
    "huge": (lambda a, f: _kind(a, f, ["F32", [2**63, 2]]), r"a shape of over 2\^64 numbers"),
    "another shape": (lambda a, f: _kind(a, f, ["U8", [1]]), "belong to no tensor|on the same bytes"),
    "place null": (lambda a, f: _place(f, None), "has None; expected the number of a kind, and an offset"),
    "kind unknown": (lambda a, f: _place(f, [999, 0]), "expected the number of a kind"),
    "kind negative": (lambda a, f: _place(f, [-1, 0]), "expected the number of a kind"),
    "offset": (lambda a, f: _place(f, [0, 10**15]), "belong to no tensor"),
    "group": (lambda a, f: f["tensors"].update({"x.": [1]}), "x. holds no tensors"),
    "absent": (
        lambda a, f: a["files"].update({"a.safetensors": {"tensors": {"x.": {}}}}),
        "no list of names",
    ),
    "unknown": (
        lambda a, f: a["files"].update({"a.safetensors": {"tensors": {"x.": ["y"]}}}),
        "1 unknown tensors, first x.y",
    ),
    "deep": (lambda a, f: a.update(more=json.loads("[" * 250 + "]" * 250)), "nested too deeply"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_headers_that_are_wrong_are_said(name, whole, tmp_path, capsys):
    change, sentence = CHANGES[name]
    file = edited(whole, tmp_path, change)
    for read in (lambda: config_of(str(file)), lambda: open_checkpoint(file)):
        with pytest.raises(ValueError, match=sentence) as error:
            read()
        assert len(str(error.value)) < 400 + 2 * len(str(tmp_path))
    assert str(file) in said(capsys, "params", str(file))


def test_headers_that_contradict_their_config_are_refused_as_a_folder_is(shards, whole, tmp_path):
    def narrow(raw, _file=None):
        raw["text_config"]["q_lora_rank"] += 1

    folder = tmp_path / "folder"
    shutil.copytree(shards, folder)
    config = json.loads((folder / "config.json").read_text())
    narrow(config)
    (folder / "config.json").write_text(json.dumps(config))
    file = edited(whole, tmp_path, lambda raw, _: narrow(raw["config"]))
    sentences = []
    for path in (folder, file):
        with pytest.raises(ValueError, match="is stored as") as error:
            open_checkpoint(path)
        sentences.append(str(error.value).replace(str(path), ""))
    assert sentences[0] == sentences[1]


@pytest.mark.parametrize(
    "text",
    [
        b'{"k3scope_headers": 1',
        b'{"k3scope_headers": 1}',
        b'{"k3scope_headers": 1, "k3scope_headers": 1}',
        b'{"k3scope_headers": 1, "config": {}, "files": {}} x',
        b'{"k3scope_headers": 1, "config": {"a": 1, "a": 2}, "files": {}}',
        b'{"k3scope_headers": 1, "config": {}, "files": {"a.safetensors": {"tensors": {}}, '
        b'"a.safetensors": {"tensors": {}}}}',
        b'{"k3scope_headers": ' + b"[" * 10**6,
        b'{"k3scope_headers": 1, "files": {"a.safetensors": ' + b'{"tensors":' * 10**5,
        b'{"k3scope_headers": NaN}',
        b'{"k3scope_headers": "\xff"}',
        b'{"k3scope_headers": 1, "a": "' + b"a" * (18 * 2**20),
    ],
)
def test_a_bad_file_of_headers_is_said_at_once(text, tmp_path):
    (tmp_path / "x.json").write_bytes(text)
    begin = time.process_time()
    with pytest.raises(ValueError, match="not a file of headers that can be read") as error:
        HeadersFile(tmp_path / "x.json")
    assert time.process_time() - begin < 2
    assert len(str(error.value)) < 300 + len(str(tmp_path))


def test_a_file_of_over_512_megabytes_is_refused(tmp_path):
    (tmp_path / "x.json").write_bytes(b'{"k3scope_headers": 1}')
    os.truncate(tmp_path / "x.json", 513 * 2**20)
    with pytest.raises(ValueError, match="537,919,488 bytes; expected at most 536,870,912"):
        config_of(str(tmp_path / "x.json"))


def test_what_cannot_be_written_is_said_and_nothing_is_left(shards, part, tmp_path, capsys):
    assert "no such folder" in said(capsys, "headers", "nowhere", "--out", str(tmp_path / "x"))
    assert "config.json: no such file" in said(capsys, "headers", str(tmp_path), "--out", str(tmp_path / "x"))
    out = str(tmp_path / "nowhere" / "x.json")
    assert f"cannot write {out} (No such file" in said(capsys, "headers", str(shards), "--out", out)
    config = shards / "config.json"
    before = config.read_bytes()
    assert "choose another name" in said(capsys, "headers", str(shards), "--out", str(config))
    assert config.read_bytes() == before
    assert "choose another name" in said(capsys, "headers", str(shards), "--out", str(tmp_path))
    index = json.loads((part / INDEX).read_text())
    last = Folder(part).files[-1]
    index["weight_map"]["more"] = last
    (part / INDEX).write_text(json.dumps(index))
    sentence = said(capsys, "headers", str(part), "--out", str(tmp_path / "x"))
    assert f"places more in {last}, which does not hold it" in sentence
    assert sorted(p.name for p in tmp_path.iterdir()) == ["part"]


def test_headers_may_be_written_again(shards, tmp_path):
    first = written(shards, tmp_path).read_bytes()
    assert written(shards, tmp_path).read_bytes() == first

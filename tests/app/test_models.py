"""Models by a name of one's own: which are taken, which run, and what is said of the rest."""

import json
import shutil

import pytest

from k3scope.app import models
from k3scope.app.cli import main
from k3scope.app.page.page import visit
from k3scope.app.runs.runner import Runner
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.model import config_of, load, save_pretrained
from k3scope.model.checkpoint import model_registry
from k3scope.model.official_config_write import document
from k3scope.model.presets import K3_TINY, KIMI_K3, TRAINED


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    """No name outlives its test; `Facts` keep theirs, so each test has names of its own."""
    monkeypatch.setattr(model_registry, "REGISTERED", registry := {})
    for module in ("k3scope.model.loading", "k3scope.app.models"):
        monkeypatch.setattr(f"{module}.REGISTERED", registry)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folders") / "whole"
    save_pretrained(load("k3-random"), folder)
    shutil.copy(TRAINED["k3-tiny"] / "tokenizer.json", folder)
    return folder


def test_a_named_folder_is_the_model_it_came_from(folder):
    models.add(f"own={folder}")
    assert models.why_not_runnable("own") == ""
    assert config_of("own").d == K3_TINY.d
    assert Facts.of("own").totals.total == Facts.of("k3-random").totals.total
    runner = Runner(["k3-random", "own"])
    runs = [runner.submit(name, "the same").future.result(60) for name in runner.names]
    assert [p.id for p, _ in runs[0].next] == [p.id for p, _ in runs[1].next]
    assert [run.random_weights for run in runs] == [True, False]  # what a stranger's weights are is not known
    assert "own" in models.drawn()
    assert "own" in models.compared()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("own", "expected NAME=PATH"),
        ("own=", "expected NAME=PATH"),
        ("=x", "'' is no name for a model"),
        ("a b={folder}", "'a b' is no name for a model: expected up to 40 letters, digits and . _ -"),
        ("../x={folder}", "'../x' is no name for a model"),
        ("k3-tiny={folder}", "'k3-tiny' is a model that comes with the program"),
        ("kimi-k3={folder}", "choose another name"),
        ("own={folder}/nowhere", "no such file or folder"),
        ("own={folder}/model.safetensors", "holds weights; name the folder it is in"),
        ("own={folder}/..", "config.json: no such file; expected an official config.json"),
    ],
)
def test_what_cannot_be_named_ends_in_one_sentence(folder, capsys, text, sentence):
    assert main(["serve", "--no-open", "--model", text.format(folder=folder)]) == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.count("\n") == 1


def test_a_name_is_given_once(folder):
    models.add(f"twice={folder}")
    with pytest.raises(ValueError, match="'twice' is named twice; the first is"):
        models.add(f"twice={folder}")


def test_a_folder_in_part_is_drawn_and_says_what_is_missing(folder, tmp_path):
    save_pretrained(load("k3-random"), tmp_path / "a", shard_bytes=2_000_000)
    shards = sorted((tmp_path / "a").glob("*.safetensors"))
    for shard in shards[2:]:
        shard.unlink()
    models.add(f"part={tmp_path / 'a'}")
    (tmp_path / "a" / "model.safetensors.index.json").unlink()  # as a download in progress looks
    assert Facts.of("part").totals.total == Facts.of("k3-random").totals.total
    reason = models.why_not_runnable("part")
    assert "tensors are missing, first language_model" in reason
    assert str(tmp_path) not in reason
    runner = Runner(["k3-random"], unavailable={"part": reason})
    with pytest.raises(ValueError, match=r"part does not run here \([0-9]+ tensors are missing"):
        runner.submit("part", "x")


def test_what_does_not_fit_into_memory_is_drawn(tmp_path, monkeypatch, folder):
    models.add(f"large={folder}")
    monkeypatch.setattr(models, "_memory", lambda: 10**6)
    assert (
        models.why_not_runnable("large") == "its numbers take 21.8 MB, and this machine has 1.00 MB of memory"
    )


def test_a_config_alone_is_drawn(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(document(KIMI_K3)))
    models.add(f"alone={tmp_path}")
    assert models.why_not_runnable("alone") == "there are no weights, only its config.json"
    assert Facts.of("alone").totals.text == 2_779_484_478_208
    assert "A_log is counted with 128 entries a layer for 96 heads" in Facts.of("alone").notes[0]
    state, _ = visit("?model=alone&layer=92")
    assert (state.model, state.layer, state.problems) == ("alone", 92, [])


def test_a_folder_without_a_tokenizer_says_so(data):
    models.add(f"mute={data / 'a_mix13'}")
    assert "has no tokenizer here" in models.why_not_runnable("mute")


def test_weights_that_break_after_the_start_do_not_tell_where_they_are(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "gone")
    models.add(f"gone={tmp_path / 'gone'}")
    runner = Runner(["gone"])
    (tmp_path / "gone" / "model.safetensors").unlink()
    error = runner.submit("gone", "x").future.exception(60)
    assert isinstance(error, ValueError)
    assert str(tmp_path) not in str(error)


@pytest.mark.parametrize("key", ["model", "with", "compare"])
def test_a_link_opens_no_path(folder, key):
    state, _ = visit(f"?{key}={folder}")
    assert str(folder) not in (state.model, state.run_model, state.compare)
    assert "there is no model of that name" in state.problems[0]

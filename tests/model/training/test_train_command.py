"""python -m k3scope.model.training as a person meets it: what it says, what it refuses, how a run goes on."""

import json
import shutil
import signal
import sys
from dataclasses import replace
from random import Random

import pytest

from k3scope.model import save_pretrained
from k3scope.model.init import random_model
from k3scope.model.presets import K3_RECALL
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.tokenizers.tokenizer import SPECIALS
from k3scope.model.training import tasks
from k3scope.model.training.corpus import DOCUMENT
from k3scope.model.training.recipes import RECIPES, Phase
from k3scope.model.training.train import main

SHORT = replace(RECIPES["k3-recall"], phases={"begin": Phase({"counting": 1.0}, 16, 2)})


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a corpus of one domain and a tokenizer whose ids are bytes."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "corpus" / "text").mkdir(parents=True)
    text = DOCUMENT.join(tasks.counting(Random(i)) for i in range(60))
    for part in ("train", "held"):
        (folder / "corpus" / "text" / f"counting.{part}.txt").write_text(text)
    BpeTokenizer([], list(SPECIALS)).save(folder / "bytes.json")
    return folder


@pytest.fixture
def train(home, tmp_path, monkeypatch):
    """Runs the command in this process, with the short recipe and --out in a folder of its own."""
    monkeypatch.setitem(RECIPES, "k3-recall", SHORT)
    positions = {"--corpus": home / "corpus", "--out": tmp_path / "out", "--tokenizer": home / "bytes.json"}

    def run(*given):
        usual = {"--model": "k3-recall", "--phase": "begin", "--steps": 2, "--workers": 1} | positions
        options = usual | dict(zip(given[::2], given[1::2], strict=True))
        monkeypatch.setattr(sys, "argv", ["train", *(str(x) for pair in options.items() for x in pair)])
        main()

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A checkpoint of one layer less than k3-recall."""
    folder = tmp_path_factory.mktemp("other")
    fewer = replace(K3_RECALL, kinds=K3_RECALL.kinds[1:])
    save_pretrained(random_model(fewer), folder)
    return folder


def test_a_run_reports_what_it_does_and_where_it_puts_things(train, tmp_path, capsys):
    train()
    message = capsys.readouterr().out
    out = tmp_path / "out"
    for part in (
        "training k3-recall",
        "from new weights",
        "to step 2",
        "step 2  64 tokens",
        "tokens/s  loss ",
    ):
        assert part in message
    assert "bits per byte: counting " in message
    assert f"log: {out}/log.jsonl" in message
    assert message.splitlines()[-1] == f"done: step 2, weights in {out}/weights"


def test_a_finished_run_reports_it_and_keeps_its_weights(train, tmp_path, capsys):
    train()
    weights = tmp_path / "out" / "weights" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    capsys.readouterr()
    train()
    assert "is already at its end (step 2)" in capsys.readouterr().out
    assert weights.stat().st_mtime_ns == before
    assert len((tmp_path / "out" / "log.jsonl").read_text().splitlines()) == 1


def test_a_finished_run_without_weights_gets_them(train, tmp_path):
    train()
    shutil.rmtree(tmp_path / "out" / "weights")
    train()
    assert (tmp_path / "out" / "weights" / "model.safetensors").exists()


@pytest.mark.slow
def test_the_same_from_goes_on_and_another_is_refused(train, tmp_path, capsys):
    first = tmp_path / "first" / "weights"
    train("--out", first.parent)
    shutil.copytree(first, tmp_path / "second")
    train("--from", first)
    train("--from", first, "--steps", 3)
    train("--steps", 4)  # goes on as well, and what it began from stays known
    train("--from", first, "--steps", 5)
    assert f"from {first}, going on after step 4" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        train("--from", tmp_path / "second", "--steps", 6)
    assert f"holds a run that began from {first}, not from" in capsys.readouterr().err


def test_no_warmup_starts_at_the_full_rate(train, tmp_path):
    train("--steps", 1, "--warmup", 0, "--decay", 0, "--rate", 0.001)
    assert json.loads((tmp_path / "out" / "log.jsonl").read_text())["rate"] == 0.001


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--steps", 0, "--steps: expected a whole number of at least 1, not 0"),
        ("--steps", "many", "expected a whole number of at least 1, not many"),
        ("--workers", 0, "--workers: expected a whole number of at least 1"),
        ("--rate", 0, "--rate: expected a number above 0, not 0"),
        ("--decay", 1.5, "--decay: expected a share from 0 to 1"),
        ("--minutes", -1, "--minutes: expected a number above 0"),
        ("--minutes", "nan", "--minutes: expected a number above 0, not nan"),
        ("--warmup", -1, "--warmup: expected a whole number of at least 0"),
        ("--seed", -1, "--seed: expected a whole number from 0"),
        ("--model", "k4", "expected one of k3-tiny, k3-recall"),
        ("--phase", "anneal", "expected one of begin for k3-recall"),
        ("--corpus", "nowhere", "python -m k3scope.model.training.corpus --out nowhere"),
        ("--from", "nowhere", "--from nowhere: no such folder"),
        ("--tokenizer", "nowhere", "--tokenizer nowhere: no such file"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(train, tmp_path, capsys, option, value, message):
    with pytest.raises(SystemExit) as end:
        train(option, value)
    assert end.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_of_other_sizes_is_refused(train, other, tmp_path, capsys):
    with pytest.raises(SystemExit):
        train("--from", other)
    message = capsys.readouterr().err
    assert "has other sizes than k3-recall" in message
    assert "kinds" in message
    assert not (tmp_path / "out").exists()


def test_a_run_of_another_model_is_refused(train, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "options.jsonl").write_text('{"model": "k3-tiny"}\n')
    with pytest.raises(SystemExit):
        train()
    assert "holds a run of k3-tiny, not of k3-recall" in capsys.readouterr().err


def test_the_help_tells_every_default(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train", "--help"])
    with pytest.raises(SystemExit):
        main()
    options = capsys.readouterr().out.partition("options:")[2].split("\n  --")[1:]
    assert len(options) == 13
    assert all("(default: " in " ".join(text.split()) or "(required)" in text for text in options)

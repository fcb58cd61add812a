"""What the command line says: help for everything, and one sentence for what cannot work."""

import argparse

import pytest

from k3scope.app.cli import COMMANDS, command_module, main

WRONG = [
    ["params", "kimi-k4"],
    ["trace", "k3-randm", "--ids", "1", "--out", "x"],
    ["trace", "--ids", "", "--out", "x"],
    ["trace", "--ids-file", "no such file", "--out", "x"],
    ["generate", "k3-tyni", "--prompt", "a"],
    ["generate", "kimi-k3", "--prompt", "a"],
    ["generate", "--prompt", "a", "--tokens", "0"],
    ["generate", "--prompt", "a", "--temperature", "-1"],
    ["generate", "--prompt", "a", "--top-p", "0"],
    ["score", "k3-tyni", "--text-file", "README.md"],
    ["score", "--text-file", "no such file"],
    ["score", "--text-file", "assets/images/screenshot.png"],
    ["score", "--text-file", "README.md", "--window", "0"],
    ["lab", "hi", "k3-tyni", "--view", "routing", "--out", "x.npz"],
    ["lab", "hi", "--view", "routing", "--out", "x.txt"],
    ["lab", "hi", "--view", "routing", "--layer", "99", "--out", "x.npz"],
    ["lab", "hi", "--view", "routing", "--change", "{", "--out", "x.npz"],
    ["compare", "kimi-k3", "kimi-linear"],
    ["compare", "kimi-k3", "README.md"],
    ["compare-trace", "no such file", "neither"],
    ["check", "kimi-k4"],
    ["export", "--out", "x.txt"],
    ["serve", "--port", "0"],
    ["serve", "--model", "mine"],
]


@pytest.mark.parametrize("argv", WRONG, ids=" ".join)
def test_what_cannot_work_ends_in_one_sentence_and_status_2(capsys, argv):
    assert main(argv) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("k3scope: ")
    assert said.err.count("\n") == 1
    assert len(said.err) > 30


@pytest.mark.parametrize("typed", ["k3-randm", "kimi-k4", "k3-tyni"])
def test_a_misspelt_model_gets_the_nearest_name(capsys, typed):
    assert main(["params", typed]) == 2
    assert "did you mean 'k" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_is_explained(name):
    parser = argparse.ArgumentParser(add_help=False)
    command_module(name).arguments(parser)
    bare = [a.dest for a in parser._actions if not a.help and not a.choices and a.dest != "help"]
    assert not bare


def test_text_that_is_not_utf_8_is_refused_or_kept(capsys, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    assert main(["score", "k3-random", "--text-file", str(tmp_path / "latin.txt")]) == 2
    assert "not UTF-8 text" in capsys.readouterr().err
    assert (
        main(["generate", "k3-random", "--prompt", "caf\udce9", "--tokens", "1"]) == 0
    )  # as a shell gives it

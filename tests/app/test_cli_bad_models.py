"""Every command that takes a model: a config.json that is none ends in one sentence and status 2."""

import os

import pytest

from k3scope.app.cli import main

COMMANDS = {
    "params": ["params", "{}"],
    "compare": ["compare", "k3-tiny", "{}"],
    "check": ["check", "{}"],
    "trace": ["trace", "{}", "--prompt", "hi", "--out", "x.safetensors"],
    "generate": ["generate", "{}", "--prompt", "hi"],
    "score": ["score", "{}", "--text", "text"],
    "lab": ["lab", "hi", "{}", "--view", "lens", "--out", "x.npz"],
    "export": ["export", "--model", "{}", "--out", "x.svg"],
    "serve": ["serve", "--no-open", "--port", "7239", "--model", "x={}"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("bad", ["nested", "pipe"])
def test_a_bad_model_ends_in_one_sentence(command, bad, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("hi")
    (tmp_path / "bad").mkdir()
    config = tmp_path / "bad" / "config.json"
    os.mkfifo(config) if bad == "pipe" else config.write_bytes(b"[" * 60_000)
    assert main([part.format("bad") for part in COMMANDS[command]]) == 2
    sentence = {
        "pipe": "not a file; expected a regular one",
        "nested": "JSON nested too deeply; expected at most 200 levels",
    }
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert said[0].endswith(sentence[bad])

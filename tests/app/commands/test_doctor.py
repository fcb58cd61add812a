"""`k3scope doctor` says what runs here."""

import json

from k3scope.app.cli import main
from k3scope.model.kernels import native


def found(capsys) -> dict:
    assert main(["doctor", "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_doctor_names_versions_compiler_and_kernels(capsys):
    report = found(capsys)
    assert report["versions"].keys() == {"python", "k3scope", "torch", "panel", "bokeh", "triton"}
    assert report["machine"]["compiler"] == (native.compiler() or report["machine"]["compiler"])
    assert report["kernels"].keys() == {"delta rule", "experts"}
    tiny = report["models"]["k3-tiny"]
    assert tiny["runs"] == "runs here"
    assert tiny["weights"].startswith("trained checkpoint, ")
    assert tiny["tokenizer"] == "tokenizer: BpeTokenizer, 2,048 ids"
    assert report["models"]["kimi-k3"]["runs"] == "does not run: only its shapes and counts are at hand"


def test_doctor_shows_the_path_that_was_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("K3SCOPE_KERNELS", "reference")
    assert found(capsys)["kernels"]["experts"] == "reference (K3SCOPE_KERNELS=reference)"


def test_doctor_prints_a_table(capsys):
    assert main(["doctor"]) == 0
    assert "  torch " in capsys.readouterr().out


def test_doctor_refuses_a_path_that_does_not_exist(capsys, monkeypatch):
    monkeypatch.setenv("K3SCOPE_KERNELS", "fast")
    assert main(["doctor"]) == 2
    assert "expected one of triton, cpp, torch, reference" in capsys.readouterr().err

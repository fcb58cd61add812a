"""What the page and `params` say of a model in a quantised format."""

import json
import shutil
from dataclasses import replace

import pytest

from k3scope.app import models
from k3scope.app.cli import main
from k3scope.app.page.inspector import inspector
from k3scope.app.page.kit.templates import render
from k3scope.app.page.page import visit
from k3scope.app.page.sheets import ledger_sheet
from k3scope.assets import CONFIGS
from k3scope.diagrams.facts import provenance
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene.block_contents import contents
from k3scope.model.checkpoint import model_registry
from k3scope.model.official_config_write import document
from k3scope.model.presets import TRAINED
from k3scope.model.quantization.quantization import Quantization
from tests.helpers.quantised import SMALL, nested, official_tree, quantise, release, written

NVFP4 = release("nvfp4-pack-quantized", group_size=16, strategy="tensor_group", scale_dtype=None)
RULE = "Counted by the rule of nvfp4-pack-quantized (groups of 16)"


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    monkeypatch.setattr(model_registry, "REGISTERED", registry := {})
    for module in ("k3scope.model.loading", "k3scope.app.models"):
        monkeypatch.setattr(f"{module}.REGISTERED", registry)


def config_file(folder, quantization: dict, **changes):
    small = replace(SMALL, quantization=Quantization.of(quantization), **changes)
    (folder / "config.json").write_text(json.dumps(document(small)))
    return folder


def test_the_release_own_config_by_path_has_the_totals_of_the_preset(capsys):
    path = str(CONFIGS / "kimi-k3.json")
    assert main(["params", path, "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["total_params"] == 2_779_931_837_184
    assert (shown["checkpoint_bytes"], shown["tensor_count"]) == (1_560_860_324_864, 497_220)
    assert shown["quantization"] == "mxfp4-pack-quantized (groups of 32)"
    assert [note.split(":")[0] for note in shown["notes"]] == [
        "A_log is counted with 128 entries a layer for 96 heads"
    ]


def test_another_config_says_that_the_padding_of_a_log_is_not_known(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(document(replace(SMALL, quantization=None))))
    assert main(["params", str(tmp_path)]) == 0
    assert "A_log is counted with one entry a head, 3 a layer" in capsys.readouterr().out


def test_nvfp4_of_the_release_is_counted_with_its_mark(tmp_path, capsys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(document(nested(NVFP4))))
    assert main(["params", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "1,645,946,964,992 bytes, 170,172,291,072 of them NVFP4 scales" in shown
    assert f"{RULE}; not held against an index." in shown


def test_the_page_marks_what_was_counted_by_a_rule_alone(tmp_path):
    models.add(f"by-rule={config_file(tmp_path, NVFP4)}")
    facts = Facts.of("by-rule")
    mark = f"{RULE}; not held against an index."
    assert mark in inspector.overview("by-rule", "")
    assert mark in ledger_sheet.table("by-rule").split("</p>")[0]
    assert mark in provenance.of_bytes(facts, "moe_experts").text
    assert mark not in provenance.of_bytes(facts, "token_embedding").text
    header = {"totals": facts.totals, "config": facts.config, "kinds": facts.kinds, "snapshot": None}
    header |= {name: getattr(provenance, name)(facts) for name in ("total", "active", "layers", "by_rule")}
    assert "<b>NVFP4</b> <span>by its rule</span>" in render("facts.html", **header)
    rows = [t.row for t in contents(facts, "moe_experts").tensors]
    assert rows == ["3 × [128, 192] NVFP4", "3 × [128, 192] NVFP4", "3 × [192, 128] NVFP4"]
    state, _ = visit("?model=by-rule&select=moe_experts")
    assert (state.select, state.problems) == ("moe_experts", [])


def test_the_release_has_no_such_mark():
    assert provenance.by_rule(Facts.of("kimi-k3")) is None
    assert "by the rule of" not in inspector.overview("kimi-k3", "")


def test_a_folder_in_a_format_that_does_not_run_says_so(tmp_path):
    pytest.importorskip("compressed_tensors", reason="compressed-tensors, which writes the folder, is absent")
    model = official_tree(SMALL)
    quantise(model, NVFP4)
    written(model, config_file(tmp_path, NVFP4) / "model.safetensors")
    shutil.copy(TRAINED["k3-tiny"] / "tokenizer.json", tmp_path)
    models.add(f"packed={tmp_path}")
    assert models.why_not_runnable("packed") == (
        "its numbers are stored as nvfp4-pack-quantized (groups of 16), a format that is counted and drawn "
        "but does not run here (only routed experts in mxfp4-pack-quantized with groups of 32 do)"
    )


@pytest.mark.parametrize("content", [release(group_size=48), release() | {"ignore": ["re:("]}, "mxfp4"])
def test_a_config_that_cannot_be_counted_is_refused_when_it_is_named(content, tmp_path):
    official = document(replace(SMALL, quantization=None))
    official["text_config"]["quantization_config"] = content
    (tmp_path / "config.json").write_text(json.dumps(official))
    with pytest.raises(ValueError, match=r"^--model x=.*: config\.json: quantization_config"):
        models.add(f"x={tmp_path}")

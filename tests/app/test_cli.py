"""The command line, as a person types it."""

import csv
import io
import json

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from k3scope.app.cli import main
from k3scope.diagrams.facts import check
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.presets import DRAWN, K3_TINY

TEXT = 2_779_484_478_208  # parameters of the released text model


def params(capsys, *argv) -> str:
    assert main(["params", *argv]) == 0
    return capsys.readouterr().out


def test_params_prints_the_exact_totals(capsys):
    out = params(capsys)
    assert f"{TEXT:,} text parameters" in out
    assert "2,208 of them A_log padding" in out
    assert "14,336 of them never used" in out
    assert "105,364,019,968 with the lookup table, 103,015,209,728 with neither" in out
    assert "85,085,650,944 of them MXFP4 scales" in out


def test_params_as_json_sums_to_the_total(capsys):
    found = json.loads(params(capsys, "kimi-k3", "--format", "json"))
    assert (found["text_params"], found["vision_params"]) == (TEXT, 447_358_976)
    assert found["total_params"] == 2_779_931_837_184
    assert (found["tensor_count"], found["checkpoint_bytes"]) == (497_220, 1_560_860_324_864)
    assert found["active_params"] == 104_189_614_848
    assert found["scale_bytes"] == 85_085_650_944
    columns = {"id", "title", "formula", "per_instance", "count", "total", "bytes"}
    assert found["blocks"][0].keys() == columns
    assert sum(b["total"] for b in found["blocks"]) == found["total_params"]
    assert sum(b["bytes"] for b in found["blocks"]) == found["checkpoint_bytes"]


@pytest.mark.parametrize("by", ["block", "layer"])
def test_params_as_csv_sums_to_the_total(capsys, by):
    rows = list(csv.DictReader(io.StringIO(params(capsys, "kimi-k3", "--format", "csv", "--by", by))))
    totals = json.loads(params(capsys, "kimi-k3", "--format", "json"))
    assert sum(int(r["total"]) for r in rows) == totals["total_params"]
    assert sum(int(r["bytes"]) for r in rows) == totals["checkpoint_bytes"]


def test_params_by_tensor_lists_what_it_counts(capsys):
    found = json.loads(params(capsys, "k3-random", "--by", "tensor", "--format", "json"))
    rows = list(csv.DictReader(io.StringIO(params(capsys, "k3-random", "--by", "tensor", "--format", "csv"))))
    assert len(rows) == len(found["tensors"]) == found["tensor_count"]
    assert sum(int(r["bytes"]) for r in rows) == found["checkpoint_bytes"]
    assert sum(int(r["params"]) for r in rows) == found["total_params"]
    lines = params(capsys, "k3-random", "--by", "tensor").splitlines()
    assert lines[0].endswith("language_model.model.embed_tokens.weight")


def test_params_of_kimi_linear_match_its_index(capsys):
    out = params(capsys, "kimi-linear-48b", "--by", "layer")
    assert "49,122,681,728 parameters" in out
    assert "20,493 tensors in the checkpoint" in out
    assert "difference to the official index: 0 tensors, 0 bytes" in out


def test_params_reads_an_official_config(capsys, data):
    assert main(["params", str(data / "a_mix13"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["total_params"] > 0


def test_trace_of_the_oracle_folder_gives_its_tensors(tmp_path, data):
    folder, out = data / "a_mix13", tmp_path / "out.safetensors"
    ids = str(folder / "input_ids.safetensors")
    assert main(["trace", str(folder), "--ids-file", ids, "--dtype", "float64", "--out", str(out)]) == 0
    expected, ours = load_file(folder / "expected_f64.safetensors"), load_file(out)
    assert expected.keys() <= ours.keys()
    torch.testing.assert_close(ours["logits"], expected["logits"], rtol=0, atol=1e-9)


def test_trace_of_a_prompt_keeps_its_ids(tmp_path):
    out = tmp_path / "out.safetensors"
    assert main(["trace", "--prompt", "10 hé", "--out", str(out)]) == 0
    found, tokenizer = load_file(out)["token_ids"].tolist(), tokenizer_of("k3-random", K3_TINY.vocab)
    assert found == [tokenizer.encode("10 hé")]
    assert found[0][:2] == [*b"10"]


def test_trace_of_an_image_grows_the_prompt(tmp_path):
    out, picture = tmp_path / "out.safetensors", tmp_path / "a.png"
    Image.new("RGB", (60, 30), (255, 0, 0)).save(picture)
    assert main(["trace", "--prompt", "a", "--image", str(picture), "--out", str(out)]) == 0
    found, tokenizer = load_file(out), tokenizer_of("k3-random", K3_TINY.vocab)
    begin, content, pad, end = (
        tokenizer.specials[f"<|media_{name}|>"] for name in ("begin", "content", "pad", "end")
    )
    rows = 3 * 2  # 60 x 30 pixels are padded to 84 x 56
    expected = [begin, *tokenizer.encode("image 60x30"), content, *[pad] * rows, end, ord("a")]
    assert found["token_ids"].tolist() == [expected]
    assert found["vision_tower.out"].shape == (rows, 4 * K3_TINY.vision.d)
    assert found["mm_projector.out"].shape == (rows, K3_TINY.d)
    assert found["logits"].shape == (1, len(expected), K3_TINY.vocab)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["trace", "--prompt", "a", "--image", "pyproject.toml", "--out", "x"], "not an image"),
        (["trace", "--ids", "1", "--image", "assets/favicon.png", "--out", "x"], "no such file"),
        (["trace", "tests/data/a_mix13", "--ids", "1", "--image", "x", "--out", "x"], "no vision tower"),
        (["params", "kimi-k4"], "did you mean 'kimi-k3'"),
        (["params", "README.md"], "not valid JSON"),
        (["trace", "kimi-k3", "--ids", "1", "--out", "x"], "only its shapes and counts"),
        (["trace", "--ids", "1,b", "--out", "x"], "expected whole numbers such as 1,2,3"),
        (["trace", "--ids", "2048", "--out", "x"], "this model knows 0..2047"),
        (["trace", "--ids", "1", "--device", "warp", "--out", "x"], "no device 'warp'"),
        (["trace", "--ids", "1", "--out", "/no/such/folder/x"], "cannot write"),
        (["trace", "--ids-file", "pyproject.toml", "--out", "x"], "not a safetensors file"),
        (["serve", "--port", "99999"], "expected 1 to 65535"),
        (["serve", "--threads", "0"], "expected 1 to 64"),
    ],
)
def test_what_cannot_work_ends_in_one_sentence(capsys, argv, sentence):
    assert main(argv) == 2
    assert sentence in capsys.readouterr().err


def test_check_passes_on_the_live_models(capsys):
    assert main(["check"]) == 0
    assert capsys.readouterr().out.count("blocks match") == len(DRAWN)


def test_check_finds_a_wrong_formula(monkeypatch, tiny):
    from dataclasses import replace

    table = dict(block_spec.blocks())
    table["lm_head"] = replace(table["lm_head"], params="d*vocab + 1")
    table["kda_decay"] = replace(table["kda_decay"], leaves=("f_a_proj.weight", "decay"))
    monkeypatch.setattr(check.block_spec, "blocks", lambda: table)
    problems = check.problems(Facts("k3-random", tiny))
    assert any("lm_head.yaml: params" in p for p in problems)
    assert any("A_log belongs to no block" in p for p in problems)

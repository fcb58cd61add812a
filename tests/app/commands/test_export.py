"""A view as a file: text stays text, and a second program opens it."""

import csv
import io
import json
import xml.etree.ElementTree as ET

import pytest
from PIL import Image

from k3scope.app.cli import main
from k3scope.diagrams.scene.graph import scene
from k3scope.diagrams.spec import block_spec

OPEN = "decoder_layer,kda,latent_moe"


def export(tmp_path, name, *more):
    out = tmp_path / name
    assert main(["export", "--open", OPEN, *more, "--out", str(out)]) == 0
    return out.read_bytes()


def test_svg_keeps_every_title_as_text(tmp_path):
    root = ET.fromstring(export(tmp_path, "k3.svg"))
    words = {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {n["title"] for n in scene("kimi-k3", "model", tuple(OPEN.split(",")))["nodes"]} <= words


def test_png_has_the_size_of_the_drawing_and_ink(tmp_path):
    drawn = scene("kimi-k3", "model", tuple(OPEN.split(",")))
    image = Image.open(io.BytesIO(export(tmp_path, "k3.png", "--zoom", "0.5")))
    assert image.size == pytest.approx((drawn["width"] / 2, drawn["height"] / 2), abs=1)
    assert len(image.convert("RGB").getcolors(1 << 20)) > 50


def test_json_is_the_scene_of_the_screen(tmp_path):
    drawn = json.loads(export(tmp_path, "k3.json"))
    there = json.loads(json.dumps(scene("kimi-k3", "model", tuple(OPEN.split(",")))))
    assert there.items() <= drawn.items()
    assert (drawn["model"], drawn["layer"], drawn["theme"]) == ("kimi-k3", None, "light")


def test_a_layer_is_drawn_with_its_own_variant_and_its_step(tmp_path):
    more = ("--layer", "43", "--phase", "decode", "--B", "3", "--T", "99", "--select", "mla")
    drawn = json.loads(export(tmp_path, "layer.json", *more))
    titles = {n["id"]: n["title"] for n in drawn["nodes"]}
    assert titles["decoder_layer"] == "Layer 43 · MLA + MoE"
    assert titles["earlier_layers"] == "Layers 0 to 42"
    assert "kda" not in titles
    assert ["[B, 1, d]", "[3, 1, 7168]"] in [e["label"] for e in drawn["edges"]]
    assert (drawn["layer"], drawn["phase"], drawn["select"]) == (43, "decode", "mla")


def test_the_ledger_as_csv_sums_to_the_model(tmp_path):
    out = tmp_path / "ledger.csv"
    assert main(["export", "ledger", "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.open()))
    assert sum(int(row["total"]) for row in rows) == 2_779_931_837_184


def test_themes_and_selection_change_the_picture(tmp_path):
    plain = export(tmp_path, "a.svg")
    assert export(tmp_path, "b.svg", "--theme", "dark") != plain
    assert export(tmp_path, "c.svg", "--select", "kda_decay") != plain


def test_all_opens_every_group(tmp_path):
    out = tmp_path / "all.json"
    main(["export", "--open", "all", "--out", str(out)])
    drawn = {n["id"] for n in json.loads(out.read_text())["nodes"]}
    assert {n.id for n in block_spec.view("model").nodes} == drawn


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--out", "k3.gif"], "expected .svg, .png, .json"),
        (["--open", "kdaa", "--out", "k3.svg"], "'kdaa' is no group"),
        (["--select", "nothing", "--out", "k3.svg"], "is no block"),
        (["--zoom", "99", "--out", "k3.png"], "expected 0.1 to 8"),
        (["--layer", "93", "--out", "k3.svg"], "no layer 93; expected 0 to 92"),
        (["ledger", "--out", "k3.svg"], "expected .csv"),
        (["--T", "0", "--out", "k3.svg"], "expected 1 to"),
        (["--model", "kimi-k4", "--out", "k3.svg"], "kimi-k4"),
        (["view9", "--out", "k3.svg"], "no view 'view9'"),
        (["--out", "/no/such/folder/k3.json"], "cannot write"),
    ],
)
def test_what_cannot_be_exported_ends_in_one_sentence(capsys, more, sentence):
    assert main(["export", *more]) == 2
    assert sentence in capsys.readouterr().err


def test_a_picture_down_to_tensors_and_operations(tmp_path):
    out = tmp_path / "deep.svg"
    assert main(["export", "--model", "kimi-linear-48b", "--open", "everything", "--out", str(out)]) == 0
    drawn = out.read_text()
    assert drawn.count(">q_proj.weight</text>") == 2  # one per kind of attention
    assert "softplus" in drawn
    assert main(["export", "--open", "decoder_layer,mla,mla_q_up", "--out", str(out)]) == 0
    assert "[18432, 1536] BF16" in out.read_text()

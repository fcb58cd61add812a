"""`k3scope lab`: numbers, tables and pictures of one run."""

import csv
import io
import xml.etree.ElementTree as ET
from argparse import ArgumentParser

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from k3scope.app.cli import main
from k3scope.app.commands import lab as lab_command
from k3scope.model.interventions.intervention import loads
from k3scope.model.presets import K3_TINY
from k3scope.model.runs.lab import lab

PROMPT = "123 456"  # seven tokens


def written(tmp_path, name, *more):
    out = tmp_path / name
    assert main(["lab", PROMPT, "k3-random", *more, "--out", str(out)]) == 0
    return out.read_bytes()


def test_routing_counts_sum_to_tokens_times_top_k(tmp_path, capsys):
    found = np.load(io.BytesIO(written(tmp_path, "r.npz", "--view", "routing")))
    assert {"counts", "top_k", "tokens", "indices", "weights", "margin"} <= set(found)
    assert found["counts"].shape == (8, 18)
    assert (found["counts"].sum(-1) == found["tokens"] * found["top_k"]).all()
    assert found["indices"].shape == found["weights"].shape == (8, 7, 3)
    assert found["margin"].shape == (8, 7)
    for counts, chosen in zip(found["counts"], found["indices"], strict=True):
        np.testing.assert_array_equal(np.bincount(chosen.ravel(), minlength=18), counts)
    assert "random weights" in str(found["model"])
    assert "Tokens per expert (k3-random, random weights)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("view", "more", "arrays"),
    [
        ("kda", (), ("half_life", "half_life_of_channels", "kept", "write")),
        ("kda", ("--layer", "1", "--head", "2"), ("state", "erased", "written", "reads", "last_state")),
        ("attention", ("--layer", "3"), ("sink", "entropy", "gate", "tiles", "bounds")),
        ("attention", ("--layer", "3", "--head", "0"), ("weights", "own_score", "shared_score")),
        ("depth", (), ("rms", "weights", "mix_names", "parts", "part_names", "logit")),
        ("lens", (), ("prob", "rank", "token_prob", "token_loss", "token_rank")),
    ],
)
def test_every_view_writes_its_numbers(tmp_path, view, more, arrays):
    found = np.load(io.BytesIO(written(tmp_path, "v.npz", "--view", view, *more)))
    assert set(arrays) <= set(found)
    assert found["tokens"] == len(PROMPT)


def test_table_and_picture_hold_the_numbers_of_the_run(tmp_path):
    rows = list(csv.reader(io.StringIO(written(tmp_path, "l.csv", "--view", "lens").decode())))
    wanted = lab(PROMPT, "k3-random").picture("lens")
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], dtype=float), wanted.image, rtol=1e-5)
    assert [row[0] for row in rows[1:]] == list(wanted.rows)
    ET.fromstring(written(tmp_path, "l.svg", "--view", "lens"))
    light = written(tmp_path, "l.png", "--view", "lens", "--zoom", "1")
    dark = written(tmp_path, "l.png", "--view", "lens", "--zoom", "1", "--theme", "dark")
    assert Image.open(io.BytesIO(light)).getpixel((1, 1)) != Image.open(io.BytesIO(dark)).getpixel((1, 1))


def test_a_change_changes_the_file(tmp_path):
    plain = written(tmp_path, "a.csv", "--view", "lens")
    change = '[{"what": "head", "do": "zero", "layer": 1, "index": 2}]'
    assert written(tmp_path, "b.csv", "--view", "lens", "--change", change) != plain


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--view", "lens", "--out", "x.gif"], "expected .npz, .csv, .svg, .png"),
        (["--view", "routing", "--layer", "0", "--out", "x.npz"], "layer 0 has no experts"),
        (["--view", "kda", "--head", "1", "--out", "x.npz"], "say which layer"),
        (["--view", "kda", "--plot", "stat", "--out", "x.npz"], "expected kept, write"),
        (["--view", "depth", "--plot", "token", "--token", "7", "--out", "x.npz"], "tokens 0 to 6"),
        (["--view", "depth", "--token", "1", "--out", "x.npz"], "every token"),
        (["--view", "lens", "--change", "{", "--out", "x.npz"], "not JSON"),
        (["--view", "lens", "--out", "/no/such/folder/x.csv"], "cannot write"),
        (["k3-rand", "--view", "lens", "--out", "x.csv"], "did you mean 'k3-random'"),
        (["kimi-k3", "--view", "lens", "--out", "x.csv"], "no weights here"),
    ],
)
def test_what_cannot_be_had_ends_in_one_sentence(capsys, more, sentence):
    assert main(["lab", PROMPT, *more]) == 2
    assert sentence in capsys.readouterr().err


def test_an_empty_prompt_is_the_begin_of_text_token(tmp_path):
    out = tmp_path / "e.npz"
    assert main(["lab", "", "--view", "routing", "--out", str(out)]) == 0
    assert np.load(out)["ids"].tolist() == [K3_TINY.bos]


PATCH = '[{"what": "sublayer", "do": "patch", "layer": 2, "place": "FFN", "run": "other"}]'


def test_a_run_is_patched_from_another_prompt_and_set_against_the_plain_one(tmp_path):
    more = ("--view", "lens", "--change", PATCH, "--source", "other=123 789", "--against", PROMPT)
    found = np.load(io.BytesIO(written(tmp_path, "d.npz", *more)))
    changed, other = loads(PATCH), {"other": "123 789"}
    there, plain = (lab(PROMPT, "k3-random", interventions=c, sources=other) for c in (changed, ()))
    wanted = there.picture("lens").minus(plain.picture("lens")).image
    np.testing.assert_allclose(found["image"], wanted, atol=1e-6)
    assert np.abs(wanted[:3, :-1]).max() == 0  # nothing changes before layer 2
    assert np.abs(wanted[3:, :-1]).max() > 0


def test_a_source_without_a_name_or_that_is_not_given_is_refused(tmp_path, capsys):
    out = ("--view", "lens", "--change", PATCH, "--out", str(tmp_path / "x.csv"))
    assert main(["lab", PROMPT, *out, "--source", "=x"]) != 0
    assert "NAME=PROMPT" in capsys.readouterr().err
    assert main(["lab", PROMPT, *out]) != 0
    assert "that run is not here" in capsys.readouterr().err


def test_trace_takes_the_same_changes(tmp_path):
    out = tmp_path / "t.safetensors"
    given = ["--prompt", PROMPT, "--change", PATCH, "--source", "other=123 789", "--out", str(out)]
    assert main(["trace", "k3-random", *given]) == 0
    logits = load_file(out)["logits"]
    wanted = lab(PROMPT, "k3-random", interventions=loads(PATCH), sources={"other": "123 789"}).logits
    torch.testing.assert_close(logits, wanted)


@pytest.mark.parametrize(
    ("old", "new"), [("--change", "--intervention"), ("--against", "--baseline")], ids=["change", "against"]
)
def test_the_first_names_of_options_stay(old, new):
    parser = ArgumentParser()
    lab_command.arguments(parser)
    given = ["a prompt", "--view", "lens", "--out", "x.svg"]
    assert parser.parse_args([*given, old, "x"]) == parser.parse_args([*given, new, "x"])

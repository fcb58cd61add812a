"""A pass that is not finite: each command names where it began and ends with 1."""

import csv
import io
import shutil

import numpy as np
import pytest
from bad_models import PROMPT, bad_model
from safetensors.torch import load_file

from k3scope.app.cli import main
from k3scope.model import save_pretrained
from k3scope.model.presets import TRAINED

pytestmark = pytest.mark.slow

FIRST = {
    "KDA query": "layers.2.self_attn.q_proj",
    "KDA from one token on": "embed_tokens",
    "one expert": "layers.4.block_sparse_moe.experts",
    "router": "layers.4.block_sparse_moe.gate.scores",
    "infinite LM head": "lm_head",
}


QUICK = {"KDA query", "one expert", "infinite LM head"}
PARAMS = [pytest.param(place, marks=() if place in QUICK else pytest.mark.sweep) for place in FIRST]


@pytest.fixture(scope="module", params=PARAMS)
def bad(request, tmp_path_factory):
    """A checkpoint folder with a bad place, and the point that has to be named."""
    folder = tmp_path_factory.mktemp("bad") / "model"
    save_pretrained(bad_model(request.param), folder)
    shutil.copy(TRAINED["k3-tiny"] / "tokenizer.json", folder)
    return str(folder), FIRST[request.param]


def ends_with_1(capsys, point: str, *arguments) -> str:
    assert main([*map(str, arguments)]) == 1
    out, error = capsys.readouterr()
    assert point in error
    assert error.startswith("k3scope: ")
    return out


def test_generate_prints_nothing(capsys, bad):
    folder, point = bad
    assert ends_with_1(capsys, point, "generate", folder, "--prompt", PROMPT) == ""


@pytest.mark.parametrize("window", [(), ("--window", "3")])
def test_score_gives_no_score(capsys, tmp_path, bad, window):
    folder, point = bad
    text = tmp_path / "text.txt"
    text.write_text(PROMPT)
    window = () if "experts" in point else window  # in so few tokens nobody chooses that one
    out = ends_with_1(capsys, point, "score", folder, "--text-file", text, *window)
    assert out == ""


def test_trace_writes_its_file(capsys, tmp_path, bad):
    folder, point = bad
    out = tmp_path / "bad.safetensors"
    ends_with_1(capsys, point, "trace", folder, "--prompt", PROMPT, "--out", out)
    assert not load_file(out)["logits"].isfinite().all()
    assert main(["compare-trace", str(out), str(out)]) == 1
    shown = capsys.readouterr().out
    assert "NaN or infinity in ours and in theirs" in shown.splitlines()[-1]


@pytest.mark.parametrize("ending", ["csv", "svg", "npz"])
@pytest.mark.parametrize("bad", ["KDA query", "infinite LM head"], indirect=True)
def test_lab_writes_its_file_and_no_count_of_what_is_no_number(capsys, tmp_path, bad, ending):
    folder, point = bad
    out = tmp_path / f"routing.{ending}"
    shown = ends_with_1(capsys, point, "lab", PROMPT, folder, "--view", "routing", "--out", out)
    if point == "lm_head":
        return
    assert "not counted" not in shown
    if ending == "csv":
        table = list(csv.reader(io.StringIO(out.read_text())))
        counts = np.array([row[1:] for row in table[1:]], dtype=float)
        assert np.isnan(counts[-1]).all()  # in a pass of many tokens NaN reaches all of them
    elif ending == "svg":
        assert "are not counted" in " ".join(out.read_text().split())
    else:
        arrays = np.load(out)
        assert (arrays["indices"][-1, -1] == -1).all()
        assert np.isnan(arrays["counts"][-1]).all()
        assert np.isnan(arrays["weights"][-1, -1]).all()


def test_lab_names_a_bad_baseline(capsys, tmp_path, bad):
    folder, point = bad
    out = tmp_path / "x.csv"
    ends_with_1(capsys, point, "lab", "see", folder, "--view", "lens", "--baseline", PROMPT, "--out", out)


@pytest.mark.parametrize("command", ["generate", "score", "trace", "lab"])
def test_the_help_says_so(capsys, command):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "named and the exit status is 1" in text

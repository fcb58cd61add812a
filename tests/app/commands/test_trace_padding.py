"""`k3scope trace` of a batch with padding."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.app.cli import main

IDS = torch.tensor([[7, 8, 9, 10, 11], [5, 6, 0, 0, 0]])
REAL = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])


def traced(tmp_path, **tensors):
    save_file(tensors, tmp_path / "ids.safetensors")
    out = tmp_path / "out.safetensors"
    argv = ["trace", "k3-random", "--dtype", "float64", "--ids-file", str(tmp_path / "ids.safetensors")]
    return main([*argv, "--out", str(out)]), out


@pytest.mark.parametrize("name", ["real", "attention_mask"])
def test_a_file_of_ids_may_say_which_are_padding(name, tmp_path, capsys):
    code, out = traced(tmp_path, input_ids=IDS, **{name: REAL})
    assert code == 0
    padded = load_file(out)
    assert torch.equal(padded["real"], REAL.to(torch.uint8))
    assert traced(tmp_path, input_ids=IDS[1:, :2].contiguous())[0] == 0
    alone = load_file(out)
    assert "real" not in alone
    torch.testing.assert_close(padded["logits"][1, :2], alone["logits"][0], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("tensors", "sentence"),
    [
        ({"real": REAL[:, :4].contiguous()}, "real has shape (2, 4); expected that of the ids, (2, 5)"),
        ({"real": REAL * 3}, "other values than 0 and 1"),
        ({"real": REAL, "attention_mask": REAL.clone()}, "has both real and attention_mask"),
        ({"further": REAL}, "has 2 integer tensors besides real and attention_mask; expected exactly one"),
    ],
)
def test_a_mask_that_is_none_is_said(tensors, sentence, tmp_path, capsys):
    assert traced(tmp_path, input_ids=IDS, **tensors)[0] == 2
    assert sentence in capsys.readouterr().err

import json
import math

import pytest
import torch

from k3scope.app.cli import main
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.presets import K3_TINY
from k3scope.model.runs.bits_per_byte import text_losses


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("Überall gab es einen lauten Lärm.\n" * 9)
    return path


def score(capsys, *arguments):
    assert main(["score", *map(str, arguments), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_bytes_tokens_and_bits_agree_with_the_losses(capsys, text):
    found = score(capsys, "k3-random", "--text-file", text)
    ids = tokenizer_of("k3-random", K3_TINY.vocab).encode(text.read_text())
    assert found["bytes"] == len(text.read_bytes())
    assert found["tokens"] == len(found["losses"]) == len(ids) < found["bytes"]
    bits = sum(found["losses"]) / math.log(2) / found["bytes"]
    assert found["bits_per_byte"] == pytest.approx(bits, rel=1e-4)
    guess = math.log2(K3_TINY.vocab)  # bits of a token: an untrained model knows nothing
    assert guess - 1 < bits * found["bytes"] / found["tokens"] < guess + 1


def test_a_text_read_in_pieces_costs_the_same_as_at_once(tiny):
    ids = torch.randint(0, 256, (1, 300), generator=torch.Generator().manual_seed(0))
    whole = torch.cat([torch.full((1, 1), tiny.config.bos), ids], 1)
    logits = tiny(whole[:, :-1])[0]
    expected = torch.nn.functional.cross_entropy(logits, ids[0], reduction="none")
    torch.testing.assert_close(text_losses(tiny, ids[0].tolist()), expected, atol=1e-4, rtol=1e-4)


def test_a_window_empties_the_memory(tiny):
    losses = text_losses(tiny, [*b"abcabc"], window=3)
    torch.testing.assert_close(losses[:3], losses[3:])


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "empty"), (b"\xff\xfe", "not UTF-8"), (None, "No such file")]
)
def test_a_file_that_is_no_text_is_refused(capsys, tmp_path, content, message):
    path = tmp_path / "given"
    if content is not None:
        path.write_bytes(content)
    assert main(["score", "k3-random", "--text-file", str(path)]) == 2
    assert message in capsys.readouterr().err

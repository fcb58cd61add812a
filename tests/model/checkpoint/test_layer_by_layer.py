import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.app.cli import main
from k3scope.assets import CONFIGS
from k3scope.model import open_checkpoint, save_pretrained, trace
from k3scope.model.checkpoint.layer_by_layer import run_leading, streamed
from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.init import random_model
from k3scope.model.presets import K3_TINY

IDS = torch.tensor([[3, 1, 4, 1, 5]])
LAYERS = "language_model.model.layers."
INDEX = "model.safetensors.index.json"
HERE = Path(__file__).parents[2]
BROKEN = 6  # the first layer that the partial folder lacks


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The small model in shards, MXFP4 experts and all."""
    path = tmp_path_factory.mktemp("whole")
    c = replace(K3_TINY, latent=64, expert_dim=96)
    save_pretrained(random_model(c), path, torch.bfloat16, packed=True, shard_bytes=400_000)
    return path


@pytest.fixture(scope="module")
def partial(whole, tmp_path_factory):
    """What someone has who fetched some shards: no embedding, no head, layers up to BROKEN."""
    path = tmp_path_factory.mktemp("partial")
    where = json.loads((whole / INDEX).read_text())["weight_map"]
    gone = ("embed_tokens", "lm_head", f".layers.{BROKEN}.", "vision_tower", "mm_projector")
    lost = {name for name in where if any(part in name for part in gone)}
    for file in set(where.values()):
        stored = {n: t for n, t in load_file(whole / file).items() if n not in lost}
        if stored:
            save_file(stored, path / file)
    index = {n: "lost.safetensors" if n in lost else file for n, file in where.items()}
    (path / INDEX).write_text(json.dumps({"weight_map": index}))
    (path / "config.json").write_text((whole / "config.json").read_text())
    return path


def test_a_streamed_model_gives_the_same_logits(whole):
    checkpoint = open_checkpoint(whole)
    torch.testing.assert_close(
        streamed(checkpoint, torch.float32)(IDS), checkpoint.load(torch.float32)(IDS), rtol=1e-5, atol=1e-6
    )


def test_layers_are_empty_before_and_after_a_streamed_run(whole):
    model = streamed(open_checkpoint(whole))
    assert model.language_model.lm_head.weight.device.type == "cpu"
    model(IDS)
    model(IDS)
    for layer in model.language_model.model.layers:
        assert all(p.device.type == "meta" for p in layer.parameters())


def test_a_failing_layer_is_emptied_too(whole):
    model = streamed(open_checkpoint(whole))
    with pytest.raises(RuntimeError):
        model.language_model.model.layers[0](torch.zeros(1, 2, 5), [], None)
    assert all(p.device.type == "meta" for p in model.language_model.model.layers[0].parameters())


def test_without_embedding_the_leading_layers_run_from_hidden_states(whole, partial):
    model = open_checkpoint(whole).load(torch.float64)
    expected = trace(model, IDS).values
    checkpoint = open_checkpoint(partial)
    assert (checkpoint.complete_layers, checkpoint.has_embedding) == (BROKEN, False)
    run = run_leading(checkpoint, model.language_model.model.embed_tokens(IDS), dtype=torch.float64)
    for layer in range(BROKEN):
        point = f"{LAYERS}{layer}.prefix_sum"
        torch.testing.assert_close(run.values[point], expected[point], rtol=1e-9, atol=1e-12)
    assert not any(f"{LAYERS}{BROKEN}." in point for point in run.values)


def test_without_embedding_ids_are_refused(partial):
    with pytest.raises(ValueError, match=r"tensors are missing.*lost\.safetensors.*give hidden states"):
        run_leading(open_checkpoint(partial), IDS)


@pytest.mark.parametrize("shape", [(5,), (5, 127), (1, 0, 128), (1, 1, 5, 128)], ids=str)
def test_hidden_states_of_another_width_are_refused(partial, shape):
    with pytest.raises(ValueError, match=r"expected \[T, 128\] or \[B, T, 128\]"):
        run_leading(open_checkpoint(partial), torch.zeros(shape))


def test_more_layers_than_are_complete_are_refused(partial):
    with pytest.raises(ValueError, match=f"7 layers cannot run.*the first {BROKEN} of 9"):
        run_leading(open_checkpoint(partial), torch.zeros(3, 128), 7)


def test_trace_of_a_partial_folder_writes_its_layers(partial, whole, tmp_path, capsys):
    model = open_checkpoint(whole).load(torch.float64)
    save_file({"h": model.language_model.model.embed_tokens(IDS)}, tmp_path / "hidden.safetensors")
    out = tmp_path / "out.safetensors"
    argv = ["trace", str(partial), "--hidden", str(tmp_path / "hidden.safetensors"), "--out", str(out)]
    assert main([*argv, "--dtype", "float64"]) == 0
    message = capsys.readouterr().out
    assert "tensors are missing, first language_model.model.embed_tokens.weight" in message
    result = load_file(out)
    expected = trace(model, IDS).values[f"{LAYERS}{BROKEN - 1}.prefix_sum"]
    torch.testing.assert_close(result[f"layers.{BROKEN - 1}.prefix_sum"], expected, rtol=1e-9, atol=1e-12)
    assert "logits" not in result


@pytest.mark.slow
def test_an_index_of_the_whole_release_opens_with_one_shard_of_it(full, tmp_path):
    """497,220 names, of which only one norm of layer 3 is here."""
    layout = Layout(full, full.config)
    here = f"{LAYERS}3.input_layernorm.weight"
    where = {t.name: "here.safetensors" if t.name == here else "gone.safetensors" for t in layout}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": where}))
    save_file({here: torch.ones(7168, dtype=torch.bfloat16)}, tmp_path / "here.safetensors")
    (tmp_path / "config.json").write_text((CONFIGS / "kimi-k3.json").read_text())
    checkpoint = open_checkpoint(tmp_path)
    assert len(checkpoint.missing) == len(where) - 1 == 497_219
    assert checkpoint.complete_layers == 0


PEAK = """
import sys, torch
from k3scope.model import load, open_checkpoint
from k3scope.model.checkpoint.layer_by_layer import streamed

def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) * 1024

load("k3-random")(torch.tensor([[1, 2]]))  # what the first pass of any model costs
checkpoint = open_checkpoint(sys.argv[1])
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")  # the high-water mark starts again from here
if sys.argv[2] == "streamed":
    streamed(checkpoint)(torch.tensor([[3, 1, 4]]))
else:
    checkpoint.load(torch.float32, packed=sys.argv[2] == "packed")
print(status("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the high-water mark of memory from /proc")
@pytest.mark.slow
def test_memory_is_bounded_by_what_is_used(tmp_path):
    c = replace(K3_TINY, experts=64, latent=256, expert_dim=256, kinds=("kda",) * 5 + ("mla",) * 3)
    save_pretrained(random_model(c), tmp_path, torch.bfloat16)
    size = (tmp_path / "model.safetensors").stat().st_size
    assert size > 170e6

    def peak(how):
        argv = [sys.executable, "-c", PEAK, str(tmp_path), how]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=HERE)
        return int(done.stdout)

    assert peak("streamed") < size / 5  # one layer, one expert at a time
    assert peak("whole") < 2 * size * 1.15  # float32, and no second copy of anything

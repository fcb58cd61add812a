import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from k3scope.model import load, open_checkpoint, save_pretrained
from k3scope.model.accounting import totals
from k3scope.model.checkpoint.checkpoint import read_config
from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.config import Config
from k3scope.model.init import build, random_model
from k3scope.model.official_config_write import document
from k3scope.model.presets import K3_TINY, PRESETS
from k3scope.model.quantization.quantization import MXFP4

PACKABLE = replace(K3_TINY, kinds=("kda", "mla"), latent=64, expert_dim=96)  # whole groups of 32
LINEAR = replace(
    PRESETS["kimi-linear-48b"],
    kinds=("kda", "mla", "kda"), vocab=96, d=48, dense=80, kda_heads=3, kda_head_dim=16, gate_rank=16,
    a_log_stored=3, heads=2, kv_rank=24, nope_dim=12, shared_key_dim=4, v_dim=20, experts=6, top_k=2,
    expert_dim=28, bos=1, eos=2, pad=0,
)  # fmt: skip


def same(a, b) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("shard_bytes", [2**40, 700_000], ids=["one file", "shards"])
def test_a_model_comes_back_exactly(tmp_path, dtype, shard_bytes):
    model = load("k3-random", dtype)
    save_pretrained(model, tmp_path, shard_bytes=shard_bytes)
    again = open_checkpoint(tmp_path).load()
    assert same(model, again)
    assert all(p.dtype == q.dtype for p, q in zip(model.parameters(), again.parameters(), strict=True))
    assert again.config == replace(model.config, stored=str(dtype).removeprefix("torch."))


def test_kimi_linear_comes_back_exactly_under_its_own_names(tmp_path):
    model = random_model(LINEAR)
    save_pretrained(model, tmp_path)
    names = load_file(tmp_path / "model.safetensors")
    assert names["model.layers.0.self_attn.A_log"].shape == (1, 1, 3, 1)
    assert "model.layers.1.block_sparse_moe.experts.5.w2.weight" in names
    assert same(model, open_checkpoint(tmp_path).load())


def test_files_are_what_the_layout_states(tmp_path, tiny):
    save_pretrained(tiny, tmp_path, torch.bfloat16, shard_bytes=500_000)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    stored = totals(build(tiny.config)).storage
    assert index["metadata"]["total_size"] == stored.bytes
    assert len(index["weight_map"]) == stored.tensors
    layout = Layout(tiny, tiny.config)
    for file in set(index["weight_map"].values()):
        tensors = load_file(tmp_path / file)
        assert len(tensors) == 1 or sum(t.nbytes for t in tensors.values()) <= 500_000
        for name, tensor in tensors.items():
            expected = layout.find(name)
            assert (tuple(tensor.shape), tensor.nbytes) == (expected.shape, expected.bytes)


def test_packing_keeps_mxfp4_numbers_exactly(tmp_path):
    save_pretrained(random_model(PACKABLE), tmp_path / "a", torch.bfloat16, packed=True)
    decoded = open_checkpoint(tmp_path / "a").load()
    assert decoded.config.packed_experts
    save_pretrained(decoded, tmp_path / "b")  # the config says packed, and these numbers can be
    assert same(decoded, open_checkpoint(tmp_path / "b").load())


def test_experts_that_were_kept_packed_are_written_byte_for_byte(tmp_path):
    save_pretrained(random_model(PACKABLE), tmp_path / "a", torch.bfloat16, packed=True)
    save_pretrained(open_checkpoint(tmp_path / "a").load(packed=True), tmp_path / "b")
    first, second = ((tmp_path / x / "model.safetensors").read_bytes() for x in "ab")
    assert first == second


def test_kept_packed_experts_can_be_written_as_numbers(tmp_path):
    save_pretrained(random_model(PACKABLE), tmp_path / "a", torch.bfloat16, packed=True)
    stored = open_checkpoint(tmp_path / "a").load(packed=True)
    save_pretrained(stored, tmp_path / "b", packed=False)
    assert same(open_checkpoint(tmp_path / "a").load(), open_checkpoint(tmp_path / "b").load())


def test_rounding_experts_has_to_be_asked_for(tmp_path):
    model = random_model(replace(PACKABLE, quantization=MXFP4))
    with pytest.raises(ValueError, match=r"experts\.0\.w1.*packed=True rounds them"):
        save_pretrained(model, tmp_path)
    assert not list(tmp_path.glob("*"))


def test_a_width_without_whole_groups_cannot_be_packed(tmp_path, tiny):
    with pytest.raises(ValueError, match="whole groups"):
        save_pretrained(tiny, tmp_path, packed=True)
    assert not list(tmp_path.glob("*"))


def test_a_checkpoint_is_not_written_over(tmp_path, tiny):
    save_pretrained(tiny, tmp_path)
    with pytest.raises(ValueError, match="holds a checkpoint already"):
        save_pretrained(tiny, tmp_path)


@pytest.mark.parametrize("name", PRESETS)
def test_the_config_comes_back(name):
    c = PRESETS[name]
    assert Config.from_official(json.loads(json.dumps(document(c)))) == replace(c, a_log_stored=c.kda_heads)


def test_the_padding_comes_back_with_the_tensors(tmp_path, tiny):
    save_pretrained(tiny, tmp_path)
    assert read_config(tmp_path).a_log_stored == tiny.config.a_log_stored == 8

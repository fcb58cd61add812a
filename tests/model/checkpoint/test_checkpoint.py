import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.model import load, open_checkpoint, save_pretrained
from k3scope.model.init import random_model
from k3scope.model.moe_packed import PackedExperts
from k3scope.model.presets import K3_TINY
from k3scope.model.quantization.quantization import MXFP4

IDS = torch.tensor([[3, 1, 4, 1, 5]])
LAYER = "language_model.model.layers."
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(data, tmp_path):
    """A copy of the oracle checkpoint that a test may spoil."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(data / "a_mix13" / name, tmp_path / name)
    return tmp_path


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A small model in the storage of the release: bfloat16, MXFP4 experts, one shard a layer or so."""
    c = replace(K3_TINY, kinds=("kda", "mla", "kda"), latent=64, expert_dim=96, quantization=MXFP4)
    path = tmp_path_factory.mktemp("packed")
    save_pretrained(random_model(c), path, torch.bfloat16, packed=True, shard_bytes=600_000)
    return path


def same(a, b) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[n], theirs[n]) for n in ours)


def rewrite(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def edit_config(folder, change):
    config = json.loads((folder / "config.json").read_text())
    change(config["text_config"])
    (folder / "config.json").write_text(json.dumps(config))


def split(folder, parts=2, index=True):
    """Deal the tensors of the one file out to shards, layer by layer; the names of the shards."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    size = -(-len(names) // parts)
    where = {n: f"model-{i // size + 1:05}-of-{parts:05}.safetensors" for i, n in enumerate(names)}
    for shard in set(where.values()):
        save_file({n: tensors[n] for n in names if where[n] == shard}, folder / shard)
    if index:
        (folder / INDEX).write_text(json.dumps({"weight_map": where}))
    return sorted(set(where.values()))


@pytest.mark.parametrize("index", [True, False])
def test_shards_load_like_one_file(folder, data, index):
    split(folder, 3, index)
    assert torch.equal(load(str(folder))(IDS), load(str(data / "a_mix13"))(IDS))


def test_padded_a_log_is_used_by_its_first_entries(folder, data):
    def pad(tensors):
        for name in [n for n in tensors if n.endswith("A_log")]:
            tensors[name] = torch.cat([tensors[name], torch.full((13,), 7.0)])

    rewrite(folder, pad)
    assert torch.equal(load(str(folder))(IDS), load(str(data / "a_mix13"))(IDS))
    assert open_checkpoint(folder).config.a_log_stored == 16


def test_a_log_may_be_stored_with_axes_of_one(folder, data):
    def wrap(tensors):
        for name in [n for n in tensors if n.endswith("A_log")]:
            tensors[name] = tensors[name].view(1, 1, -1, 1)

    rewrite(folder, wrap)
    assert torch.equal(load(str(folder))(IDS), load(str(data / "a_mix13"))(IDS))


def test_what_the_release_has_in_float32_stays_so_in_bfloat16(folder):
    model = load(str(folder), torch.bfloat16)
    layer = model.language_model.model.layers[1]
    assert layer.self_attn.A_log.dtype == layer.self_attn.q_conv1d.weight.dtype == torch.float32
    assert layer.block_sparse_moe.gate.e_score_correction_bias.dtype == torch.float32
    assert layer.self_attn.q_proj.weight.dtype == layer.block_sparse_moe.experts.w1.dtype == torch.bfloat16
    assert model(IDS).dtype == torch.bfloat16


def test_presets_keep_float32_in_bfloat16_as_well():
    layer = load("k3-random", torch.bfloat16).language_model.model.layers[1]
    assert layer.self_attn.dt_bias.dtype == torch.float32
    assert layer.mlp_res_proj.weight.dtype == torch.bfloat16


def test_bfloat16_is_accepted_where_the_release_has_float32(folder):
    rewrite(folder, lambda t: t.update({n: v.bfloat16() for n, v in t.items()}))
    assert load(str(folder))(IDS).isfinite().all()


def test_a_missing_tensor_is_named(folder):
    rewrite(folder, lambda t: t.pop(f"{LAYER}5.block_sparse_moe.experts.3.w2.weight"))
    with pytest.raises(ValueError, match=r"1 tensors are missing.*layers\.5.*experts\.3\.w2.*first 5 of 13"):
        load(str(folder))
    checkpoint = open_checkpoint(folder)
    assert checkpoint.missing == (f"{LAYER}5.block_sparse_moe.experts.3.w2.weight",)
    assert checkpoint.complete_layers == 5


def test_an_unknown_tensor_is_named(folder):
    rewrite(folder, lambda t: t.update({"language_model.extra.weight": torch.zeros(1)}))
    with pytest.raises(ValueError, match=r"unknown.*language_model\.extra"):
        load(str(folder))


def test_a_wrong_shape_names_both_shapes(folder):
    rewrite(folder, lambda t: t.update({"language_model.model.norm.weight": torch.ones(95)}))
    with pytest.raises(ValueError, match=r"norm\.weight.*\(95,\).*\(96,\)"):
        load(str(folder))


def test_whole_numbers_for_weights_are_refused(folder):
    rewrite(folder, lambda t: t.update({"language_model.model.norm.weight": torch.ones(96).long()}))
    with pytest.raises(ValueError, match=r"norm\.weight is stored as I64; expected BF16"):
        load(str(folder))


@pytest.mark.parametrize("keep", [0, 5, 100, 20_000, -1000])
def test_a_truncated_file_is_refused(folder, keep):
    full = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(full[:keep])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load(str(folder))


def test_a_file_that_is_no_safetensors_is_refused(folder):
    (folder / "model.safetensors").write_bytes(b"\x08" + bytes(7) + b"no json!" + bytes(100))
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load(str(folder))


def test_a_pickle_is_refused_with_the_reason(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="pickle, which can run code"):
        load(str(folder))


def test_an_index_of_pickles_is_refused_with_the_reason(folder):
    (folder / INDEX).write_text(json.dumps({"weight_map": {"x": "pytorch_model-1.bin"}}))
    with pytest.raises(ValueError, match="pickle, which can run code"):
        load(str(folder))


@pytest.mark.parametrize("text", ["[]", "{", '{"weight_map": 3}', '{"weight_map": {"x": 4}}'])
def test_an_index_that_is_none_is_refused(folder, text):
    (folder / INDEX).write_text(text)
    with pytest.raises(ValueError, match=r"index\.json"):
        load(str(folder))


def test_an_index_cannot_point_outside_the_folder(folder):
    (folder / INDEX).write_text(json.dumps({"weight_map": {"x": "../x.safetensors"}}))
    with pytest.raises(ValueError, match="no file name in this folder"):
        load(str(folder))


def test_an_index_that_contradicts_a_file_is_refused(folder):
    first, second = split(folder)
    index = json.loads((folder / INDEX).read_text())
    name = next(n for n, f in index["weight_map"].items() if f == first)
    index["weight_map"][name] = second
    (folder / INDEX).write_text(json.dumps(index))
    with pytest.raises(ValueError, match=rf"{first} holds .*places in {second}"):
        load(str(folder))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c.update(hidden_size=95), r"config\.json asks for"),
        (lambda c: c.update(num_experts=13), r"gate\.weight is stored as \(12, 96\).*asks for \(13, 96\)"),
        (lambda c: c.update(quantization_config=MXFP4.content), "48 has no whole groups of 32 for MXFP4"),
        (
            lambda c: c.update(first_k_dense_replace=2),
            r"unknown tensors, first .*layers\.1\.block_sparse_moe",
        ),
    ],
)
def test_a_config_that_contradicts_the_tensors_is_refused(folder, change, sentence):
    edit_config(folder, change)
    with pytest.raises(ValueError, match=sentence):
        load(str(folder))


def test_fewer_layers_in_the_config_than_in_the_files(folder):
    def cut(c):
        c["num_hidden_layers"] = 12
        c["linear_attn_config"]["full_attn_layers"] = [4, 8, 12]

    edit_config(folder, cut)
    with pytest.raises(ValueError, match="there are 12 layers"):
        load(str(folder))


def test_packed_experts_without_a_quantization_config_are_refused(packed, tmp_path):
    shutil.copytree(packed, tmp_path / "copy")
    edit_config(tmp_path / "copy", lambda c: c.pop("quantization_config"))
    with pytest.raises(ValueError, match="no quantization_config of that kind"):
        load(str(tmp_path / "copy"))


def test_a_folder_without_weights_says_what_it_expects(tmp_path, data):
    shutil.copy(data / "a_mix13" / "config.json", tmp_path)
    with pytest.raises(ValueError, match=r"expected model\.safetensors or"):
        load(str(tmp_path))


def test_the_released_model_has_no_weights_to_load():
    with pytest.raises(ValueError, match="only its shapes and counts"):
        load("kimi-k3")


def test_a_partial_folder_knows_what_it_can_run(folder, data):
    names = split(folder, 4)
    for shard in names[2:]:
        (folder / shard).unlink()
    checkpoint = open_checkpoint(folder)
    index = json.loads((folder / INDEX).read_text())["weight_map"]
    assert set(checkpoint.missing) == {n for n, f in index.items() if f in names[2:]}
    assert checkpoint.complete_layers == 3
    assert checkpoint.has_embedding
    with pytest.raises(ValueError, match=rf"tensors are missing.*2 files are not there, first {names[2]}"):
        checkpoint.load()
    with pytest.raises(ValueError, match="4 layers are asked for"):
        checkpoint.load_layers(4)
    full = load(str(data / "a_mix13")).language_model.model.layers
    assert all(same(a, b) for a, b in zip(checkpoint.load_layers(3), full, strict=False))


def test_packed_experts_equal_the_decoded_ones(packed):
    checkpoint = open_checkpoint(packed)
    decoded, stored = checkpoint.load(torch.float32), checkpoint.load(torch.float32, packed=True)
    banks = [m for m in stored.modules() if isinstance(m, PackedExperts)]
    assert len(banks) == 2
    bank = decoded.language_model.model.layers[1].block_sparse_moe.experts
    assert torch.equal(banks[0].read("w1", 17).float(), bank.w1[17])
    torch.testing.assert_close(stored(IDS), decoded(IDS), rtol=1e-5, atol=1e-6)


def test_packed_experts_take_a_quarter_of_bfloat16(packed):
    bank = open_checkpoint(packed).load(packed=True).language_model.model.layers[1].block_sparse_moe.experts
    taken = sum(b.numel() for b in bank.buffers())
    assert taken / (2 * bank.parameters_stored) == 0.25 + 1 / 64


def test_a_model_stays_as_loaded_when_its_file_is_replaced(folder, data):
    model = load(str(folder))
    before = model(IDS)
    other = folder / "other"
    save_file({"x": torch.zeros(10)}, other)
    other.replace(folder / "model.safetensors")
    assert torch.equal(model(IDS), before)

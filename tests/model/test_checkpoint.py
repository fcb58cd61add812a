import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from model import load
from model.checkpoint import official_names


@pytest.fixture
def folder(data, tmp_path):
    """A copy of the oracle checkpoint that a test may spoil."""
    for name in ("config.json", "model.safetensors"):
        shutil.copy(data / "a_mix13" / name, tmp_path / name)
    return tmp_path


def rewrite(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_shards_with_an_index_load_like_one_file(folder, data):
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    halves = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, part in halves.items():
        save_file({n: tensors[n] for n in part}, folder / shard)
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {n: shard for shard, part in halves.items() for n in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    ids = torch.tensor([[3, 1, 4]])
    assert torch.equal(load(str(folder))(ids), load(str(data / "a_mix13"))(ids))


def test_padded_a_log_is_used_by_its_first_entries(folder, data):
    def pad(tensors):
        for name in [n for n in tensors if n.endswith("A_log")]:
            tensors[name] = torch.cat([tensors[name], torch.full((13,), 7.0)])

    rewrite(folder, pad)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    assert torch.equal(load(str(folder))(ids), load(str(data / "a_mix13"))(ids))


def test_a_missing_tensor_is_named(folder):
    rewrite(folder, lambda t: t.pop("language_model.model.layers.5.block_sparse_moe.experts.3.w2.weight"))
    with pytest.raises(ValueError, match=r"1 tensors are missing.*layers\.5.*experts\.3\.w2"):
        load(str(folder))


def test_an_unknown_tensor_is_named(folder):
    rewrite(folder, lambda t: t.update({"language_model.extra.weight": torch.zeros(1)}))
    with pytest.raises(ValueError, match=r"unknown.*language_model\.extra"):
        load(str(folder))


def test_a_wrong_shape_names_both_shapes(folder):
    rewrite(folder, lambda t: t.update({"language_model.model.norm.weight": torch.ones(95)}))
    with pytest.raises(ValueError, match=r"norm\.weight.*\(95,\).*\(96,\)"):
        load(str(folder))


def test_a_truncated_file_is_refused(folder):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-1000])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load(str(folder))


def test_a_pickle_is_refused_with_the_reason(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="pickle, which can run code"):
        load(str(folder))


def test_a_missing_shard_is_named(folder):
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"x": "gone.safetensors"}})
    )
    with pytest.raises(ValueError, match=r"gone\.safetensors"):
        load(str(folder))


def test_the_released_model_has_no_weights_to_load():
    with pytest.raises(ValueError, match="only its shapes and counts"):
        load("kimi-k3")


def test_official_names_count_one_per_expert_matrix(full):
    names = official_names(full)
    assert len(names) == 497_220 - 494_592 // 2  # packed experts store two tensors each
    assert "language_model.model.layers.92.block_sparse_moe.experts.895.w3.weight" in names

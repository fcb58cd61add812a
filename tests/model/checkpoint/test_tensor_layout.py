from dataclasses import replace
from itertools import islice

import pytest
import torch
from torch import nn

from k3scope.model import meta
from k3scope.model.checkpoint.tensor_layout import Layout, Stored
from k3scope.model.presets import KIMI_K3

LAYER = "language_model.model.layers."


@pytest.fixture(scope="module")
def layout(full):
    return Layout(full, full.config)


def test_the_release_reconciles_with_its_index(layout):
    s = layout.storage()
    assert (s.tensors, s.bytes, s.scale_bytes) == (497_220, 1_560_860_324_864, 85_085_650_944)
    assert s.by_dtype == {"BF16": 2_122, "F32": 506, "U8": 494_592}
    assert s.parameters == 2_779_931_837_184


@pytest.mark.parametrize(
    ("part", "tensors", "parameters"),
    [("language_model.", 497_052, 2_779_484_478_208), ("vision_tower.", 165, 401_214_464),
     ("mm_projector.", 3, 46_144_512)],
)  # fmt: skip
def test_each_part_of_the_release_has_its_published_count(layout, part, tensors, parameters):
    s = layout.storage(e for e in layout.entries if e.startswith(part))
    assert (s.tensors, s.parameters) == (tensors, parameters)


def test_kimi_linear_reconciles_with_its_index():
    model = meta("kimi-linear-48b")
    layout = Layout(model, model.config)
    s = layout.storage()
    assert (s.tensors, s.bytes, s.parameters) == (20_493, 98_245_528_576, 49_122_681_728)
    assert s.by_dtype == {"BF16": 20_453, "F32": 40}
    assert layout.find("model.layers.0.self_attn.A_log").shape == (1, 1, 32, 1)
    assert layout.find("model.layers.0.self_attn.o_norm.weight").dtype == "BF16"
    assert layout.find("language_model.model.norm.weight") is None


def test_listing_and_counting_agree(layout):
    tensors = parameters = stored = 0
    for t in layout:
        tensors, parameters, stored = tensors + 1, parameters + t.parameters, stored + t.bytes
    s = layout.storage()
    assert (tensors, parameters, stored) == (s.tensors, s.parameters, s.bytes)


def test_names_come_one_at_a_time(layout):
    first = list(islice(layout, 3))
    assert first[0].name == "language_model.model.embed_tokens.weight"


def test_every_name_finds_its_tensor(layout):
    for t in islice(layout, 0, None, 97):
        assert layout.find(t.name) == t


def test_an_expert_is_two_byte_tensors(layout):
    name = f"{LAYER}92.block_sparse_moe.experts.895.w2.weight"
    bank = f"{LAYER}92.block_sparse_moe.experts.w2"
    packed = layout.find(f"{name}_packed")
    assert packed == Stored(f"{name}_packed", bank, 895, (3584, 1536), "U8", "packed")
    assert layout.find(f"{name}_scale") == Stored(f"{name}_scale", bank, 895, (3584, 96), "U8", "scale")
    one = [layout.find(f"{LAYER}1.block_sparse_moe.experts.0.{w}.weight_{k}") for w in ("w1", "w2", "w3")
           for k in ("packed", "scale")]  # fmt: skip
    assert sum(t.bytes for t in one) == 17_547_264
    assert sum(t.parameters for t in one) == 33_030_144


@pytest.mark.parametrize(
    "name",
    [
        "language_model.model.layers.1.block_sparse_moe.experts.896.w1.weight_packed",  # one too many
        "language_model.model.layers.1.block_sparse_moe.experts.01.w1.weight_packed",
        "language_model.model.layers.1.block_sparse_moe.experts.1.w1.weight",  # packed in the release
        "language_model.model.layers.0.block_sparse_moe.experts.1.w1.weight_packed",  # a dense layer
        "language_model.model.layers.1.block_sparse_moe.experts.w1",
        "model.norm.weight",
        "",
    ],
)
def test_a_name_that_is_not_official_finds_nothing(layout, name):
    assert layout.find(name) is None


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("0.self_attn.q_conv1d.weight", "F32"),
        ("0.self_attn.A_log", "F32"),
        ("0.self_attn.dt_bias", "F32"),
        ("0.self_attn.o_norm.weight", "F32"),
        ("1.block_sparse_moe.gate.e_score_correction_bias", "F32"),
        ("1.block_sparse_moe.gate.weight", "BF16"),
        ("1.block_sparse_moe.routed_expert_down_proj.weight", "BF16"),
        ("3.self_attn.q_a_layernorm.weight", "BF16"),
    ],
)
def test_dtypes_follow_the_release(layout, name, dtype):
    assert layout.find(LAYER + name).dtype == dtype


def test_search_picks_an_expert_or_lets_one_stand_for_all(layout):
    def names(text, limit=100):
        return [(t.name.removeprefix(LAYER), alike) for t, alike in layout.search(text, limit)]

    assert names("layers.5.block_sparse_moe.experts.17.w3") == [
        ("5.block_sparse_moe.experts.17.w3.weight_packed", 1),
        ("5.block_sparse_moe.experts.17.w3.weight_scale", 1),
    ]
    assert ("5.block_sparse_moe.experts.0.w1.weight_scale", 896) in names(
        "layers.5.block_sparse_moe.experts."
    )
    assert names("lm_head") == [("language_model.lm_head.weight", 1)]
    assert len(names("A_log")) == 69
    assert names("experts.896.w1") == names("nothing of the kind") == []
    assert len(names("weight", 7)) == 7


def test_tensors_per_layer(layout):
    def inside(layer):
        return layout.storage(p for p in layout.entries if p.startswith(f"{LAYER}{layer}."))

    assert [inside(i).tensors for i in (0, 1, 3)] == [23, 28 + 5_376, 22 + 5_376]


def test_shared_parameters_are_stored_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(8, 4)
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.embed.weight
            self.blocks = nn.ModuleList([self.head])
            self.blocks.scale = nn.Parameter(torch.ones(3))

    layout = Layout(Tied(), replace(KIMI_K3, quantization=None))
    assert [t.name for t in layout] == ["embed.weight", "blocks.scale"]
    assert layout.storage().bytes == 2 * (32 + 3)
    assert layout.storage(["head.weight", "embed.weight", "blocks.0.weight"]).parameters == 32

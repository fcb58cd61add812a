import copy
import dataclasses
import json

import pytest

from k3scope.assets import CONFIGS
from k3scope.model.checkpoint.checkpoint import read_config
from k3scope.model.config import Config
from k3scope.model.presets import K3_TINY, KIMI_K3, PRESETS, TRAINED, preset


@pytest.fixture
def official():
    return json.loads((CONFIGS / "kimi-k3.json").read_text())


def test_the_official_file_gives_the_released_sizes(official):
    c = Config.from_official(official)
    assert (c.layers, c.d, c.vocab, c.experts, c.top_k, c.latent) == (93, 7168, 163840, 896, 16, 3584)
    assert (c.kinds.count("kda"), c.kinds.count("mla")) == (69, 24)


def test_layer_lists_count_from_one(official):
    c = Config.from_official(official)
    assert [i for i, kind in enumerate(c.kinds) if kind == "mla"] == [*range(3, 92, 4), 92]


def test_a_flat_text_config_reads_the_same(official):
    nested = dataclasses.replace(Config.from_official(official), vision=None, media_pad=None)
    assert Config.from_official(official["text_config"]) == nested


@pytest.mark.parametrize(
    "key", ["hidden_size", "num_experts_per_token", "routed_expert_hidden_size", "q_lora_rank"]
)
def test_a_missing_key_is_named(official, key):
    del official["text_config"][key]
    with pytest.raises(ValueError, match=key):
        Config.from_official(official)


@pytest.mark.parametrize("key", ["head_dim", "num_heads", "kda_layers"])
def test_a_missing_linear_attention_key_is_named(official, key):
    del official["text_config"]["linear_attn_config"][key]
    with pytest.raises(ValueError, match=key):
        Config.from_official(official)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_act", "silu"),
        ("mla_use_nope", False),
        ("tie_word_embeddings", True),
        ("topk_method", "greedy"),
    ],
)
def test_a_value_this_model_does_not_implement_is_refused(official, key, value):
    official["text_config"][key] = value
    with pytest.raises(ValueError, match=key):
        Config.from_official(official)


def test_contradicting_layer_lists_are_refused(official):
    both = copy.deepcopy(official)
    both["text_config"]["linear_attn_config"]["kda_layers"].append(4)
    with pytest.raises(ValueError, match=r"\[4\].*both kda_layers and full_attn_layers"):
        Config.from_official(both)
    zero = copy.deepcopy(official)
    zero["text_config"]["linear_attn_config"]["kda_layers"][0] = 0
    with pytest.raises(ValueError, match=r"1\.\.93.*0, 1"):
        Config.from_official(zero)


def test_a_number_of_the_wrong_kind_is_refused(official):
    official["text_config"]["num_experts"] = "many"
    with pytest.raises(ValueError, match="num_experts is 'many'"):
        Config.from_official(official)


def test_sizes_of_the_small_model_differ_pairwise():
    c = K3_TINY
    sizes = {k: v for k, v in c.sizes().items() if isinstance(v, int)}
    ids = ("bos", "eos", "pad", "media_pad")
    counts = ("max_positions", "dense_layers", "block", "a_log_stored")
    recorded = ("vit_layers", "vit_frames", "vit_merge", "vit_max_side")
    for name in ids + counts + recorded:
        del sizes[name]  # no axes; block and conv are both 4, as designed
    sizes |= {
        "kda_width": c.kda_heads * c.kda_head_dim,
        "q_dim": c.nope_dim + c.shared_key_dim,
        "q_width": c.heads * (c.nope_dim + c.shared_key_dim),
        "kv_dim": c.nope_dim + c.v_dim,
        "kv_width": c.heads * (c.nope_dim + c.v_dim),
        "v_width": c.heads * c.v_dim,
        "kv_down": c.kv_rank + c.shared_key_dim,
        "shared_width": c.shared_experts * c.expert_dim,
        "vit_qkv_width": 3 * c.vision.qkv,
        "vit_patch_width": 3 * c.vision.patch**2,
        "vit_merged": c.vision.merge**2 * c.vision.d,
    }
    assert len(set(sizes.values())) == len(sizes), sorted(sizes.items(), key=lambda kv: kv[1])


def test_the_random_model_is_the_trained_one_before_training():
    assert PRESETS["k3-random"] == preset("k3-tiny") == read_config(TRAINED["k3-tiny"])


def test_candidates_of_the_mixes_follow_the_release():
    c = KIMI_K3
    assert [c.candidates(i, "attn") for i in (0, 1, 12, 13, 92)] == [1, 2, 2, 3, 9]
    assert [c.candidates(i, "ffn") for i in (0, 11, 12, 84, 92)] == [2, 2, 3, 9, 9]


def test_an_unknown_model_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean 'kimi-k3'"):
        preset("kimi-k")

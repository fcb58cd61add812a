"""config.json as other tools write it: what means the same is read the same."""

import json

import pytest

from k3scope.assets import CONFIGS
from k3scope.model.config import Config
from k3scope.model.init import random_model
from k3scope.model.presets import K3_RECALL, KIMI_LINEAR, PRESETS
from k3scope.model.runs.generate import generate


def official(name: str = "kimi-k3") -> dict:
    return json.loads((CONFIGS / f"{name}.json").read_text())


def read(name: str = "kimi-k3", **changes) -> Config:
    raw = official(name)
    raw.get("text_config", raw).update(changes)
    return Config.from_official(raw)


def test_several_end_tokens_are_all_of_them():
    c = read(eos_token_id=[163586, 163585, 163586])
    assert (c.eos, c.other_eos, c.stops) == (163586, (163585,), (163586, 163585))


@pytest.mark.parametrize("nothing", [None, [], -1])
def test_a_model_may_have_no_end_token(nothing):
    c = read(eos_token_id=nothing) if nothing is not None else Config.from_official(_without_eos())
    assert c.stops == (-1,)


def _without_eos() -> dict:
    raw = official()
    del raw["eos_token_id"], raw["text_config"]["eos_token_id"]
    return raw


def test_tokens_are_read_from_the_top_where_the_text_half_has_none():
    raw = official()
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        raw["text_config"][key] = None
    c = Config.from_official(raw)
    assert (c.bos, c.eos, c.pad) == (163584, 163586, 163839)


@pytest.mark.parametrize("key", ["num_shared_experts", "attn_res_block_size"])
@pytest.mark.parametrize("nothing", [None, 0])
def test_a_part_that_is_null_or_zero_is_none(key, nothing):
    c = read(**{key: nothing})
    assert (c.shared_experts if key == "num_shared_experts" else c.block) == {
        "num_shared_experts": 0,
        "attn_res_block_size": None,
    }[key]


@pytest.mark.parametrize("count", [0, 93])
def test_any_number_of_leading_layers_may_be_dense(count):
    assert read(first_k_dense_replace=count).dense_layers == count


def test_a_vision_half_that_is_null_is_none():
    raw = official() | {"vision_config": None}
    assert Config.from_official(raw).vision is None


@pytest.mark.parametrize("written", ["torch.bfloat16", "bfloat16"])
def test_the_dtype_may_carry_the_name_of_the_library(written):
    assert Config.from_official(official() | {"dtype": written}).stored == "bfloat16"


def test_generation_ends_at_any_end_token():
    c = K3_RECALL
    model = random_model(c)
    ids = list(generate(model, [1, 2], 6))
    model.config = type(c)(**{n: getattr(c, n) for n in c.__dataclass_fields__} | {"other_eos": (ids[2],)})
    assert list(generate(model, [1, 2], 6, stop=model.config.stops)) == ids[: ids.index(ids[2]) + 1]


# as transformers 5.24 saves the release of Kimi-Linear: other names, and lists of kinds
RENAMED = {
    "num_experts": "num_local_experts",
    "num_experts_per_token": "num_experts_per_tok",
    "num_shared_experts": "n_shared_experts",
    "moe_renormalize": "norm_topk_prob",
    "num_expert_group": "n_group",
    "model_max_length": "max_position_embeddings",
}


def as_transformers(renamed: bool = True) -> dict:
    raw = official("kimi-linear-48b")
    linear = raw.pop("linear_attn_config")
    for key in ("mla_use_nope", "moe_router_activation_func", "moe_layer_freq", "num_nextn_predict_layers"):
        del raw[key]
    layers, dense = raw["num_hidden_layers"], raw.pop("first_k_dense_replace")
    raw["layer_types"] = [
        "linear_attention" if n + 1 in linear["kda_layers"] else "full_attention" for n in range(layers)
    ]
    raw["mlp_layer_types"] = ["dense"] * dense + ["sparse"] * (layers - dense)
    raw["linear_num_heads"], raw["linear_head_dim"] = linear["num_heads"], linear["head_dim"]
    raw["linear_conv_kernel_dim"] = linear["short_conv_kernel_size"]
    return {RENAMED.get(k, k): v for k, v in raw.items()} if renamed else raw


@pytest.mark.parametrize("renamed", [False, True])
def test_kimi_linear_as_transformers_writes_it_is_the_same_model(renamed):
    assert Config.from_official(as_transformers(renamed)) == KIMI_LINEAR


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"layer_types": ["linear_attention"] * 3}, "layer_types has 3 entries, but num_hidden_layers is 27"),
        ({"layer_types": ["mamba"] * 27}, "layer_types holds 'mamba'; expected one of linear_attention"),
        ({"layer_types": [None] * 27}, "layer_types holds None"),
        ({"layer_types": [["full_attention"]] * 27}, r"layer_types holds \['full_attention'\]"),
        ({"layer_types": 3}, "layer_types is 3; expected a list"),
        (
            {"mlp_layer_types": ["sparse", "dense"] + ["sparse"] * 25},
            "mlp_layer_types has a dense layer 1 behind a sparse one",
        ),
        ({"first_k_dense_replace": 3}, "first_k_dense_replace is 3, but mlp_layer_types begins with 1"),
        ({"linear_num_heads": None}, "the key 'num_heads' is missing"),
        ({"num_experts": 8}, "num_experts is 8 and num_local_experts is 256; they are two names"),
    ],
)
def test_what_contradicts_itself_there_is_named(changes, sentence):
    with pytest.raises(ValueError, match=f"config.json: {sentence}"):
        Config.from_official(as_transformers() | changes)


def test_layers_are_dense_as_the_list_says_layer_by_layer():
    raw = as_transformers() | {"mlp_layer_types": ["dense"] * 27}
    assert Config.from_official(raw).dense_layers == 27


@pytest.mark.parametrize("level", ["top", "text", "both"])
def test_a_tied_head_may_be_said_at_either_level(level):
    raw = official()
    del raw["tie_word_embeddings"], raw["text_config"]["tie_word_embeddings"]
    assert Config.from_official(raw).own_head
    for half in [raw] * (level != "text") + [raw["text_config"]] * (level != "top"):
        half["tie_word_embeddings"] = True
    assert not Config.from_official(raw).own_head


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "k3-random"])
def test_the_same_numbers_as_floats_are_the_same_model(name):
    def floats(value):
        if isinstance(value, dict):
            return {k: floats(v) for k, v in value.items()}
        if isinstance(value, list):
            return [floats(v) for v in value]
        return float(value) if type(value) is int else value

    assert Config.from_official(floats(official(name))) == Config.from_official(official(name))

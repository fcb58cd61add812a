"""`quantization_config`: where it stands, which formats are counted by which rule, and what is refused."""

import copy
import json
from collections import Counter
from dataclasses import replace
from math import prod

import pytest

from k3scope.model.checkpoint.checkpoint import read_config
from k3scope.model.config import Config
from k3scope.model.official_config_write import document
from k3scope.model.presets import KIMI_K3, KIMI_LINEAR
from k3scope.model.quantization.quantization import MXFP4, Quantization
from tests.helpers.quantised import RELEASE, SMALL, layout, nested, official, release

KEY = "quantization_config"
EXPERT = "language_model.model.layers.1.block_sparse_moe.experts.17.w2."


def small(content) -> tuple[int, int]:
    s = layout(replace(SMALL, quantization=Quantization.of(content))).storage()
    return s.tensors, s.bytes


def storage(content) -> tuple[int, int]:
    s = layout(replace(nested(content), a_log_stored=128)).storage()
    return s.tensors, s.bytes


NVFP4 = {"group_size": 16, "strategy": "tensor_group", "scale_dtype": "torch.float8_e4m3fn"}


def test_it_is_read_at_the_top_level_where_the_official_class_puts_it():
    inside, above, both = official(), official(), official()
    above[KEY] = above["text_config"].pop(KEY)
    both[KEY] = copy.deepcopy(both["text_config"][KEY])
    configs = [Config.from_official(c) for c in (inside, above, both)]
    assert configs[0] == configs[1] == configs[2]
    assert configs[0].packed_experts
    assert [KEY in document(c) for c in configs] == [False, True, False]
    assert [KEY in document(c)["text_config"] for c in configs] == [True, False, True]


def test_null_is_absent_in_either_place():
    config = official()
    config["text_config"][KEY] = None
    assert Config.from_official(config).quantization is None
    config[KEY] = release()
    assert Config.from_official(config).packed_experts
    assert Config.from_official(config | {KEY: None}).quantization is None


def test_two_that_differ_are_a_contradiction_that_is_named():
    config = official() | {KEY: release(group_size=16)}
    with pytest.raises(
        ValueError, match="in text_config and at the top level, and they differ: config_groups"
    ):
        Config.from_official(config)


@pytest.mark.parametrize("value", ["mxfp4", [], 4, 4.5, True, [{"format": "x"}]])
@pytest.mark.parametrize("top", [True, False])
def test_what_is_no_object_is_a_sentence(value, top):
    config = official()
    (config if top else config["text_config"])[KEY] = value
    with pytest.raises(ValueError, match=r"^config\.json: quantization_config is .*; expected an object$"):
        Config.from_official(config)


@pytest.mark.parametrize(
    ("content", "tensors", "size"),
    [
        (release(), 497_220, 1_560_860_324_864),
        (release(group_size=16), 497_220, 1_645_945_975_808),
        # RedHatAI/Kimi-K3-NVFP4: 1,645.9 GB of safetensors, "MoE layers quantized to NVFP4"
        (release("nvfp4-pack-quantized", **NVFP4), 744_516, 1_645_946_964_992),
        (None, 249_924, 5_559_885_919_232),
    ],
    ids=["the release", "groups of 16", "NVFP4", "none"],
)
def test_the_release_is_counted_in_its_format(content, tensors, size):
    assert storage(content) == (tensors, size)


def test_inputs_that_are_quantised_for_nvfp4_add_one_scale_a_matrix():
    content = release("nvfp4-pack-quantized", **NVFP4)
    group = content["config_groups"]["group_0"]
    group["input_activations"] = group["weights"] | {"dynamic": "local"}
    tensors, size = storage(content)
    assert (tensors, size) == (744_516 + 247_296, 1_645_946_964_992 + 4 * 247_296)
    assert f"{size / 1e9:,.1f}" == "1,645.9"  # the published figure does not tell the two apart


def test_linears_around_the_experts_stay_as_the_index_of_the_release_has_them():
    found = layout(replace(SMALL, quantization=Quantization.of(MXFP4.content)))
    quantised = {e.name.split(".layers.")[-1] for e in found.entries.values() if e.scheme}
    assert quantised == {f"1.block_sparse_moe.experts.{m}" for m in ("w1", "w2", "w3")}
    named = MXFP4.content
    named["config_groups"]["group_0"]["targets"].append("re:.*routed_expert_up_proj")
    found = layout(replace(SMALL, quantization=Quantization.of(named)))
    assert found.find("language_model.model.layers.1.block_sparse_moe.routed_expert_up_proj.weight_packed")


def test_a_model_of_the_older_family_can_be_quantised_too():
    content = MXFP4.content | {"ignore": ["re:.*self_attn.*", "lm_head"]}
    found = layout(replace(KIMI_LINEAR, quantization=Quantization.of(content)))
    assert found.find("model.layers.1.block_sparse_moe.shared_experts.up_proj.weight_packed").shape == (
        1024,
        1152,
    )
    assert found.find("lm_head.weight").dtype == "BF16"
    s = found.storage()
    assert (s.parameters, s.tensors) == (49_122_681_728, 20_493 + 26 * 257 * 3 + 3)


def test_tensors_of_a_format_are_found_by_their_names():
    found = layout(nested(release("nvfp4-pack-quantized", **NVFP4)))
    packed, scale, overall = (
        found.find(EXPERT + n) for n in ("weight_packed", "weight_scale", "weight_global_scale")
    )
    assert (packed.shape, packed.dtype, packed.parameters) == ((3584, 1536), "U8", 3584 * 3072)
    assert (scale.shape, scale.dtype, scale.parameters) == ((3584, 192), "F8_E4M3", 0)
    assert (overall.shape, overall.dtype, overall.bytes) == ((1,), "F32", 4)
    assert found.find(EXPERT + "weight") is None
    assert [t.name for t, _ in found.search("experts.17.w2.weight_global", 1)] == [
        EXPERT + "weight_global_scale"
    ]


def test_k3_as_model_optimizer_exports_it_has_the_published_element_counts():
    """nvidia/Kimi-K3-NVFP4: layers as its converter lists them, elements as the Hub shows them by dtype."""
    attention = (
        "q_proj k_proj v_proj g_proj o_proj f_a_proj f_b_proj b_proj "
        "q_a_proj q_b_proj kv_a_proj_with_mqa kv_b_proj"
    )
    layers = {}
    for n in range(93):
        base = f"model.layers.{n}."
        layers |= {f"{base}self_attn.{p}": {"quant_algo": "FP8_PB_WO"} for p in attention.split()}
        layers[f"{base}block_sparse_moe.experts"] = {"quant_algo": "NVFP4", "group_size": 16}
    content = {"quant_method": "modelopt_mixed", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
    config = official()
    del config["text_config"][KEY]
    found = layout(Config.from_official(config | {KEY: content}))
    elements = Counter()
    for entry in found.entries.values():
        for t in entry.tensors:
            elements[t.dtype] += 0 if t.role == "scale" else prod(t.shape) * max(entry.experts, 1)
    shown = {dtype: f"{count / 1e9:.2f}B" for dtype, count in elements.items()}
    assert shown == {"F8_E4M3": "36.18B", "BF16": "21.00B", "F32": "0.01B", "U8": "1361.37B"}
    q = "language_model.model.layers.0.self_attn.q_proj."
    assert found.find(q + "weight_scale").shape == (96, 1, 56, 1)
    parts = [t.name.removeprefix(EXPERT) for t, _ in found.search(EXPERT, 9)]
    assert parts == ["weight", "weight_scale", "weight_scale_2", "input_scale"]


def test_blocks_of_fp8_have_a_scale_for_each_even_where_they_are_cut():
    content = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
    found = layout(nested(content))
    kv = "language_model.model.layers.3.self_attn.kv_a_proj_with_mqa."
    assert (found.find(kv + "weight").shape, found.find(kv + "weight").dtype) == ((576, 7168), "F8_E4M3")
    assert (found.find(kv + "weight_scale_inv").shape, found.find(kv + "weight_scale_inv").dtype) == (
        (5, 56),
        "F32",
    )
    assert found.find("language_model.lm_head.weight").dtype == "BF16"


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128},
         {"qweight": ("I32", (384, 3584)), "qzeros": ("I32", (24, 448)), "scales": ("F16", (24, 3584)),
          "g_idx": ("I32", (3072,))}),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"},
         {"qweight": ("I32", (3072, 448)), "qzeros": ("I32", (24, 448)), "scales": ("F16", (24, 3584))}),
    ],
    ids=["gptq", "awq"],
)  # fmt: skip
def test_transposed_formats_pack_words_of_32_bits(content, names):
    found = layout(nested(content))
    shown = {t.name.removeprefix(EXPERT): (t.dtype, t.shape) for t, _ in found.search(EXPERT, 9)}
    assert shown == names
    assert found.storage().parameters == 2_779_931_834_976


def test_what_is_not_counted_is_noted():
    assert KIMI_K3.quantization.notes == ()
    content = release() | {
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
        "transform_config": {"R1": {}},
    }
    caches, transforms = Quantization.of(content).notes
    assert caches == "kv_cache_scheme quantises the caches of a server; scales of it are not counted."
    assert transforms == "The matrices of transform_config are not counted."
    assert small(content) == small(release())


@pytest.mark.parametrize("content", [
    release() | {"sparsity_config": {}, "transform_config": {}, "kv_cache_scheme": None, "version": "0.13.0"},
    release() | {"quantization_status": "frozen"},
    {k: v for k, v in release().items() if k not in ("quant_method", "quantization_status", "format")},
    release(group_size=32.0, num_bits=4.0),
])  # fmt: skip
def test_what_other_versions_write_changes_nothing(content):
    assert small(content) == small(release())


def test_a_config_is_written_as_it_was_read():
    for content in (release(group_size=16), {"quant_method": "fp8", "weight_block_size": [128, 128], "x": 1}):
        config = nested(content)
        assert document(config)["text_config"][KEY] == content
        assert Config.from_official(document(config)) == config
    assert nested(release(group_size=16)) != nested(release())


def test_what_older_files_call_compression_config_is_read():
    config = official()
    config["text_config"]["compression_config"] = config["text_config"].pop(KEY)
    assert Config.from_official(config) == nested(release())


def test_a_section_for_the_vision_half_alone_is_refused():
    config = official()
    config["vision_config"][KEY] = release(group_size=16)
    with pytest.raises(ValueError, match="quantization_config of vision_config is not read"):
        Config.from_official(config)


@pytest.mark.parametrize(
    ("name", "content", "formats"),
    [
        (
            "hf_quant_config.json",
            {"quantization": {"quant_algo": "NVFP4", "group_size": 16}},
            "modelopt NVFP4",
        ),
        ("quantize_config.json", {"bits": 4, "group_size": 32}, "gptq"),
        ("quant_config.json", {"w_bit": 4, "q_group_size": 32, "version": "GEMM"}, "awq"),
    ],
)
def test_a_file_beside_config_json_is_read_when_that_says_nothing(name, content, formats, tmp_path):
    even = replace(SMALL, kda_heads=8, a_log_stored=8)  # so that all outputs fill words of 32 bits
    file = tmp_path / "config.json"
    file.write_text(json.dumps(document(replace(even, quantization=None))))
    (tmp_path / name).write_text(json.dumps(content))
    assert str(read_config(tmp_path).quantization) == formats
    file.write_text(json.dumps(document(replace(even, quantization=MXFP4))))
    assert read_config(tmp_path).packed_experts
    (tmp_path / name).write_text("[]")
    file.write_text(json.dumps(document(replace(even, quantization=None))))
    with pytest.raises(ValueError, match=f"{name}: expected an object"):
        read_config(file)


def test_patterns_of_layers_do_not_make_every_expert_a_question():
    """93 patterns, one a layer: all digits are in them, and none of them tells experts apart."""
    ignore = [*RELEASE, *(rf"re:.*layers\.{n}\.self_attn.*" for n in range(93))]
    rules = Quantization.of(release() | {"ignore": ignore}).rules
    assert layout(nested(release() | {"ignore": ignore})).storage().tensors == 497_220
    assert len(rules._distinct("a.experts", "w1", 896)) == 3


def test_names_that_are_listed_one_by_one_are_quick():
    every = [f"language_model.model.layers.{n}.block_sparse_moe.experts.{e}.{m}"
             for n in range(60, 93) for e in range(896) for m in ("w1", "w2", "w3")]  # fmt: skip
    found = layout(nested(release() | {"ignore": [*RELEASE, *every]}))
    assert found.storage().tensors == 497_220 - 33 * 896 * 3


def test_experts_that_a_list_or_a_pattern_sets_apart_are_counted_apart():
    plain = EXPERT.removesuffix(".")
    content = release() | {"ignore": [*RELEASE, plain, r"re:.*layers\.2\..*experts\.8\d\d\.w1"]}
    found = layout(nested(content))
    assert (found.find(f"{plain}.weight").dtype, found.find(f"{plain}.weight_packed")) == ("BF16", None)
    assert found.find(plain.replace(".17.", ".18.") + ".weight_packed").dtype == "U8"
    s = found.storage()
    assert s.tensors == 497_220 - 1 - 96
    assert s.parameters == 2_779_931_834_976
    assert s.bytes == 1_560_860_316_032 + 97 * 3072 * 3584 * (2 - 0.5 - 1 / 32)
    assert "does not run here" in found.cannot_run

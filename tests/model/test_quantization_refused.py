"""A `quantization_config` that is not known, or contradicts itself, is refused in one sentence."""

import time

import pytest

from tests.helpers.quantised import RELEASE, layout, nested, release

REFUSED = {
    "bitsandbytes": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        "format bitsandbytes is not known here",
    ),
    "no method": ({}, r"format \(no quant_method\) is not known here: expected one of mxfp4"),
    "a method that is a list": ({"quant_method": ["fp8"]}, "is not known here"),
    "an unknown format": (release("nvfp5-pack-quantized"), "format nvfp5-pack-quantized is not known here"),
    "a format that is a number": (release(4), r"quantization_config\.format is 4; expected a string"),
    "sparse": (release() | {"sparsity_config": {"format": "sparse-bitmask"}}, r"sparsity_config\.format is"),
    "not compressed": (
        release() | {"quantization_status": "initialized"},
        "quantization_status is 'initialized'",
    ),
    "no groups": ({"format": "mxfp4-pack-quantized"}, "config_groups is missing"),
    "a group that is null": (release() | {"config_groups": {"g": None}}, "config_groups.g is null"),
    "a group that is a list": (
        release() | {"config_groups": {"NVFP4": ["Linear"]}},
        "NVFP4 is .*expected an object",
    ),
    "formats that differ": (
        release() | {"format": "pack-quantized"},
        "group_0.format is 'mxfp4-pack-quantized', but",
    ),
    "integers in a float pack": (
        release(type="int"),
        "4 bits and type 'int'; expected 4 bits and type 'float'",
    ),
    "floats in an integer pack": (release("pack-quantized"), "expected 1 to 8 bits and type 'int'"),
    "no group size": (release(group_size=None), "group_size is None with strategy 'group'"),
    "a group of 0": (release(group_size=0), "group_size is 0 with strategy 'group'"),
    "a group of -2": (release(group_size=-2), "group_size is -2; expected a whole number"),
    "half a group": (release(group_size=31.5), "group_size is 31.5; expected a whole number"),
    "an infinite group": (release(group_size=float("inf")), "group_size is inf; expected a whole number"),
    "a huge group": (release(group_size=10**30), "group_size is 1000.*; expected a whole number"),
    "a group that divides nothing": (
        release(group_size=48),
        "a width of 3,584 has no whole groups of 48 for MXFP4",
    ),
    "a strategy": (release(strategy="stripes"), "strategy is 'stripes'; expected one of tensor, channel"),
    "blocks without sizes": (
        release("float-quantized", strategy="block", group_size=None, num_bits=8),
        "block_structure is None",
    ),
    "a scale dtype": (release(scale_dtype="torch.complex64"), "scale_dtype is 'torch.complex64'"),
    "weights that are a list": (
        release() | {"config_groups": {"g": {"targets": [], "weights": []}}},
        r"weights is \[\]",
    ),
    "targets that are numbers": (release() | {"config_groups": {"g": {"targets": [1]}}}, "targets holds 1"),
    "an ignore that is a string": (release() | {"ignore": "lm_head"}, "ignore is 'lm_head'; expected a list"),
    "no regular expression": (
        release() | {"ignore": ["re:("]},
        r"ignore has '\(', which is no regular expression",
    ),
    "a pattern without end": (
        release() | {"ignore": ["re:(.*a)*b"]},
        "fewer repeats in one pattern, and none of a group",
    ),
    "a long pattern": (release() | {"ignore": ["re:" + "a" * 2000]}, "of 2,000 letters"),
    "fp8 without blocks": ({"quant_method": "fp8"}, "weight_block_size is missing"),
    "fp8 of one side": ({"quant_method": "fp8", "weight_block_size": [128]}, r"weight_block_size is \[128\]"),
    "fp8 blocks of 0": ({"quant_method": "fp8", "weight_block_size": [0, 128]}, "weight_block_size is"),
    "an algorithm": ({"quant_method": "modelopt", "quant_algo": "W4A8"}, "format W4A8 is not known here"),
    "3 bits": ({"quant_method": "gptq", "bits": 3}, "bits is 3; expected 2, 4 or 8"),
    "awq by gemv": ({"quant_method": "awq", "version": "gemv"}, "awq with version gemv is not known"),
}


@pytest.mark.parametrize(("content", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_known_is_refused_in_one_sentence_and_never_counted_as_bf16(content, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        layout(nested(content))
    assert str(error.value).startswith("config.json: ")
    assert "\n" not in str(error.value)


def test_patterns_that_would_take_long_are_stopped():
    start = time.thread_time()
    content = release() | {"ignore": [*RELEASE, "re:.*.*.*.*.*!"]}
    with pytest.raises(ValueError, match="patterns of quantization_config take more than 1 s"):
        layout(nested(content))
    assert time.thread_time() - start < 2


@pytest.mark.parametrize(
    "pattern",
    [r".*(q|k|v|o|gate|up|down|f_a|f_b)_proj$", r"(?:model\.)?.*lm_head", ".*a$|.*b$|.*c$|.*d$|.*e$|.*f$",
     rf"layers\.({'|'.join(map(str, range(93)))})\..*", r"[^.]+\.[^.]+\.[^.]+\.[^.]+\.mlp"],
)  # fmt: skip
def test_patterns_that_people_write_are_read(pattern):
    content = release() | {"ignore": [*RELEASE, f"re:{pattern}"]}
    assert layout(nested(content)).storage().tensors == 497_220


LISTED = [f"language_model.model.layers.{n}.{m}" for n in range(93) for m in (
    "self_attn.q_proj", "self_attn.o_proj", "self_attn.g_proj", "mlp", "block_sparse_moe.shared_experts",
    "block_sparse_moe.gate", "self_attention_res_proj", "mlp_res_proj",
)]  # fmt: skip
LOADED = [name.removeprefix("language_model.") for name in LISTED]
MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    "content",
    [
        FP8 | {"modules_to_not_convert": ["lm_head", *LISTED]},
        MODELOPT | {"exclude_modules": ["*lm_head", *(f"{m}*" for m in LISTED)]},
        MODELOPT | {"ignore": ["*lm_head", *(f"{m}*" for m in LOADED)]},
        {"quant_method": "awq", "modules_to_not_convert": LISTED},
        release() | {"ignore": [*LISTED, "re:.*lm_head"]},
    ],
    ids=["fp8", "modelopt", "modelopt under a loader's names", "awq", "compressed-tensors"],
)  # fmt: skip
def test_long_lists_of_modules_are_quick(content):
    found = layout(nested(content))
    start = "language_model.model.layers.40."
    assert found.find(start + "self_attn.q_proj.weight").dtype == "BF16"
    assert found.find(start + "self_attn.k_proj.weight") is None or (
        found.find(start + "self_attn.k_proj.weight").dtype != "BF16"
    )
    inside = found.find(start + "block_sparse_moe.shared_experts.up_proj.weight")
    exact = content.get("quant_method") == "compressed-tensors"  # a name there is that module alone
    assert (inside is None) if exact else (inside.dtype == "BF16")

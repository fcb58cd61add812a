"""Configs with anything anywhere: counted, or refused in one sentence."""

import copy
import random
from dataclasses import replace

import pytest

from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.init import build
from k3scope.model.quantization.quantization import Quantization
from tests.helpers.quantised import SMALL, release

WRITERS = (
    release(),
    release("nvfp4-pack-quantized", group_size=16, strategy="tensor_group", scale_dtype=None),
    release("pack-quantized", type="int", group_size=128, scale_dtype=None),
    {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"], "group_size": 16},
    {"quant_method": "modelopt_mixed", "quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "layers.0.self_attn.q_proj": {"quant_algo": "FP8"}}},
    {"quant_method": "gptq", "bits": 8, "group_size": 32, "checkpoint_format": "gptq"},
    {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"},
)  # fmt: skip
VALUES = (
    None, True, 0, 1, -1, 3, 4, 32, 33, 1e300, float("inf"), float("nan"), 10**40, 0.5, 32.0, "", "x",
    "group", "tensor_group", "block", "local", "int", "FP8", "torch.uint8", "re:(", "re:.*",
    "re:a{1000000}", "re:(?<=a*)b", "Linear", "\ud800\n", [], {}, [1, 2], [None], [[]], [{}],
    ["re:.*w1"], {"a": {}}, "dense", "mxfp8-quantized",
)  # fmt: skip


def places(value, path=()):
    """Every place in an object of JSON, as the keys that lead to it."""
    if path:
        yield path
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    ):
        yield from places(inner, (*path, key))


def changed(r: random.Random) -> dict:
    content = copy.deepcopy(r.choice(WRITERS))
    for _ in range(r.choice([1, 1, 2])):
        *path, last = r.choice(list(places(content)) or [("x",)])
        inside = content
        for key in path:
            inside = inside[key]
        if isinstance(inside, dict) and r.random() < 0.2:
            del inside[last]
        else:
            inside[last] = copy.deepcopy(r.choice(VALUES))
    return content


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(8))
def test_a_changed_config_is_counted_or_refused_in_one_sentence(seed):
    model, r = build(SMALL), random.Random(seed)
    for _ in range(500):
        content = changed(r)
        said = ""
        try:
            found = Layout(model, replace(SMALL, quantization=Quantization.of(content)))
            assert all(found.find(t.name) == t for t in found)
        except ValueError as error:
            said = str(error)
        assert said.startswith("config.json: " * bool(said)), content
        assert "\n" not in said, content

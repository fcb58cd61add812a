"""Tensors that we count for other writers, taken by the libraries that read or convert them."""

from dataclasses import replace
from math import prod

import pytest
import torch
from torch import nn

from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.files.safetensors_shard import DTYPES
from k3scope.model.init import build
from k3scope.model.quantization.quantization import Quantization
from tests.helpers.quantised import SMALL, official_tree

pytest.importorskip("compressed_tensors", reason="compressed-tensors, which converts them, is absent")
EVEN = replace(SMALL, kda_heads=8, a_log_stored=8)  # so that all outputs fill words of 32 bits


def counted(content: dict) -> dict[str, tuple[str, tuple[int, ...]]]:
    c = replace(EVEN, quantization=Quantization.of(content))
    return {t.name: (t.dtype, t.shape) for t in Layout(build(c), c)}


def tensors(content: dict) -> dict[str, torch.Tensor]:
    """Tensors of the counted names, dtypes and shapes, with numbers of no meaning."""
    return {name: torch.zeros(shape).to(DTYPES[dtype]) for name, (dtype, shape) in counted(content).items()}


def shapes(converted: dict[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(t.shape) for name, t in converted.items()}


def compressed(form: str, weights: dict, inputs: dict | None, ignore: list[str]) -> dict:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {"config_groups": {"g": group}, "format": form, "ignore": ignore}


OUTSIDE = [".*lm_head", "vision_tower", "mm_projector", ".*_res_proj"]


def test_awq_becomes_the_integer_pack_that_we_count():
    from compressed_tensors.entrypoints.convert.converters import AutoAWQConverter

    content = {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm"}
    converter = AutoAWQConverter(group_size=32, ignore=[f"re:{p}" for p in OUTSIDE])
    converted = converter.process(tensors(content))
    weights = {"num_bits": 4, "symmetric": False, "strategy": "group", "group_size": 32}
    pack = counted(compressed("pack-quantized", weights, None, [f"re:{p}" for p in OUTSIDE]))
    assert shapes(converted) == {name: shape for name, (_, shape) in pack.items()}


def test_nvfp4_of_model_optimizer_becomes_the_pack_that_we_count():
    from compressed_tensors.entrypoints.convert.converters import ModelOptNvfp4Converter

    content = {
        "quant_method": "modelopt",
        "quant_algo": "NVFP4",
        "exclude_modules": ["*lm_head", "vision_tower*"],
    }
    ignore = ["re:.*lm_head", "re:vision_tower"]
    converter = ModelOptNvfp4Converter(ignore=[*ignore, "re:.*embed_tokens", "re:.*gate$", "re:.*conv1d"])
    converted = converter.validate(tensors(content))
    weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    pack = counted(compressed("nvfp4-pack-quantized", weights, weights | {"dynamic": "local"}, ignore))
    assert converted.keys() == pack.keys()
    flat = {name: prod(shape) for name, shape in shapes(converted).items()}  # of [] and [1] alike
    assert flat == {name: prod(shape) for name, (_, shape) in pack.items()}


def test_blocks_of_fp8_are_the_numbers_of_every_linear_but_the_head():
    from compressed_tensors.entrypoints.convert.converters import FP8BlockDequantizer

    content = {"quant_method": "fp8", "weight_block_size": [48, 32]}
    stored = tensors(content)
    targets = [n.removesuffix(".weight_scale_inv") for n in stored if n.endswith("_scale_inv")]
    converted = FP8BlockDequantizer(targets=targets, weight_block_size=(48, 32)).validate(stored)
    plain = Layout(build(EVEN), EVEN)
    assert shapes(converted) == {t.name: t.shape for t in plain}


@pytest.mark.parametrize("scheme", ["dynamic", "static"])
@pytest.mark.parametrize("scales", ["float", "ue8m0"])
def test_blocks_of_fp8_have_the_names_and_shapes_of_transformers(scheme, scales):
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import replace_with_fp8_linear

    model = official_tree(EVEN)
    for path, module in list(model.named_modules()):
        if path.endswith(".experts") and isinstance(module, nn.ModuleList):
            owner = model.get_submodule(path.rpartition(".")[0])
            del owner.experts  # transformers has a class of its own for a module of that name
            owner.each_expert = module
    config = FineGrainedFP8Config(activation_scheme=scheme, weight_block_size=(48, 32), scale_fmt=scales)
    replace_with_fp8_linear(model, ["language_model.lm_head"], config)
    theirs = {n.replace("each_expert", "experts"): t for n, t in model.state_dict().items()}
    ours = counted(
        {
            "quant_method": "fp8",
            "weight_block_size": [48, 32],
            "activation_scheme": scheme,
            "scale_fmt": scales,
        }
    )
    assert {n: (t.dtype, tuple(t.shape)) for n, t in theirs.items()} == {
        n: (DTYPES[dtype], shape) for n, (dtype, shape) in ours.items()
    }

"""Quantised configs of Kimi K3, and a small one written by compressed-tensors to hold our counts against."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from k3scope.assets import CONFIGS
from k3scope.model.checkpoint.tensor_layout import Layout, cast
from k3scope.model.config import Config
from k3scope.model.init import build, random_model
from k3scope.model.moe import Experts
from k3scope.model.presets import K3_TINY

# every width has whole groups of 32, and no two are equal where a swap could hide
SMALL = replace(
    K3_TINY,
    kinds=("kda", "mla"), vocab=160, d=64, dense=224, block=2,
    kda_heads=3, kda_head_dim=32, a_log_stored=3,
    heads=2, q_rank=32, kv_rank=96, nope_dim=48, shared_key_dim=16, v_dim=80,
    experts=3, top_k=1, expert_dim=128, latent=192,
    bos=1, eos=2, pad=3, media_pad=4,
    vision=replace(K3_TINY.vision, d=64, layers=1, heads=2, qkv=96, mlp=128),
)  # fmt: skip
# what the release leaves as it is
RELEASE = [
    "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
    "re:.*lm_head.*", "re:.*vision_tower.*", "re:.*mm_projector.*",
]  # fmt: skip
AROUND = [r"re:.*routed_expert_(up|down)_proj$", "re:.*_res_proj$"]


def official() -> dict:
    return json.loads((CONFIGS / "kimi-k3.json").read_text())


def release(form: str = "mxfp4-pack-quantized", **weights) -> dict:
    """The release's own quantization_config in another format."""
    content = official()["text_config"]["quantization_config"]
    group = content["config_groups"]["group_0"]
    content["format"] = group["format"] = form
    group["weights"] |= weights
    return content


def nested(content) -> Config:
    config = official()
    config["text_config"]["quantization_config"] = content
    return Config.from_official(config)


def layout(c: Config) -> Layout:
    return Layout(build(c), c)


class Expert(nn.Module):
    """One routed expert as the official class has it: three Linears."""

    def __init__(self, bank: Experts, index: int):
        super().__init__()
        for name, stacked in bank.named_parameters():
            matrix = nn.Linear(*reversed(stacked.shape[1:]), bias=False)
            matrix.weight = nn.Parameter(stacked[index].detach().clone())
            setattr(self, name, matrix)


def official_tree(config: Config) -> nn.Module:
    """A random model in bfloat16 whose modules have the official names, each expert by itself."""
    model = cast(random_model(replace(config, quantization=None)), config, torch.bfloat16)
    for path, module in list(model.named_modules()):
        if isinstance(module, Experts):
            experts = nn.ModuleList(Expert(module, i) for i in range(config.experts))
            model.set_submodule(path, experts)
    return model


def quantise(model: nn.Module, quantization: dict) -> None:
    """Let compressed-tensors do what such a `quantization_config` says, with every scale 1."""
    from compressed_tensors.compressors.base import compress_module
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # group sizes that no kernel is fast with
        wanted = QuantizationConfig(**quantization | {"quantization_status": "initialized"})
        apply_quantization_config(model, wanted, show_progress=False)
    for module in model.modules():
        if not hasattr(module, "quantization_scheme"):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if name != "weight":
                parameter.data.fill_(0 if "zero_point" in name else 1)
        overall = quantization["format"]
        compress_module(module, None if overall == "mixed-precision" else overall)


def written(model: nn.Module, file: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of every tensor in a file that safetensors writes."""
    tensors = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    save_file(tensors, file)
    with safe_open(file, "pt") as opened:
        slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
        return {name: (s.get_dtype(), tuple(s.get_shape())) for name, s in slices.items()}

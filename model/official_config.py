"""Read and write the official config.json."""

import difflib
from math import isfinite
from reprlib import repr as short
from typing import Any

from k3scope.model.config_limits import LIMITS, MOST_EXPERTS
from k3scope.model.quantization.quantization import quantization_of
from k3scope.model.vision.vision_config import VisionConfig

# official key -> our field
COMMON = {
    "vocab_size": "vocab", "hidden_size": "d", "intermediate_size": "dense",
    "num_attention_heads": "heads", "kv_lora_rank": "kv_rank",
    "qk_nope_head_dim": "nope_dim", "qk_rope_head_dim": "shared_key_dim", "v_head_dim": "v_dim",
    "num_experts": "experts", "num_experts_per_token": "top_k", "num_shared_experts": "shared_experts",
    "moe_intermediate_size": "expert_dim", "first_k_dense_replace": "dense_layers",
    "routed_scaling_factor": "routed_scale", "rms_norm_eps": "eps", "initializer_range": "init_std",
    "bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "pad",
}  # fmt: skip
K3_ONLY = {
    "q_lora_rank": "q_rank", "routed_expert_hidden_size": "latent", "attn_res_block_size": "block",
    "activation_situ_beta": "gate_cap", "activation_situ_linear_beta": "up_cap",
    "max_position_embeddings": "max_positions",
}  # fmt: skip
STORED = ("bfloat16", "float16", "float32", "float64")
K3_MARKS = ("attn_res_block_size", "routed_expert_hidden_size", "activation_situ_beta", "latent_moe_use_norm")
LINEAR = {"num_heads": "kda_heads", "head_dim": "kda_head_dim", "short_conv_kernel_size": "conv"}
KINDS = {dict: "an object", list: "a list"}
# keys that must have the one value these models implement
FIXED = {
    "mla_use_nope": True, "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
    "num_expert_group": 1, "topk_group": 1, "moe_layer_freq": 1, "tie_word_embeddings": False,
    "num_nextn_predict_layers": 0,
}  # fmt: skip
K3_FIXED = {
    "hidden_act": "situ", "mla_use_output_gate": True, "topk_method": "noaux_tc", "latent_moe_use_norm": True,
}  # fmt: skip
VISION = {
    "vt_hidden_size": "d", "vt_num_hidden_layers": "layers", "vt_num_attention_heads": "heads",
    "qkv_hidden_size": "qkv", "vt_intermediate_size": "mlp", "init_pos_emb_height": "grid",
    "init_pos_emb_time": "frames", "patch_size": "patch", "projector_ln_eps": "projector_eps",
}  # fmt: skip
VISION_FIXED = {
    "norm_type": "rmsnorm", "attn_bias": False, "linear_bias": False, "patch_embed_proj_bias": False,
    "mlp_type": "mlp2", "activation_func": "gelu_pytorch_tanh", "pos_emb_type": "divided_fixed",
    "pos_emb_interpolation_mode": "bilinear", "merge_type": "sd2_tpool",
    "mm_projector_type": "patchmergerv2", "projector_hidden_act": "gelu",
}  # fmt: skip


def config_fields(official: dict[str, Any]) -> dict[str, Any]:
    """Values of the Config fields in an official config.json, `text_config` nested or flat.

    Layer lists count from 1. Kimi K3 is recognised by the keys that only it has.
    A missing, contradictory or unsupported key is a ValueError that names it.
    """
    if not isinstance(official, dict):
        raise ValueError("config.json: expected an object with the official keys")
    text = _need(official, "text_config", dict) if "text_config" in official else official
    linear = _need(text, "linear_attn_config", dict)
    _fixed(text, FIXED)
    if _need(text, "num_key_value_heads") != _need(text, "num_attention_heads"):
        raise ValueError(
            "config.json: num_key_value_heads differs from num_attention_heads; MLA has one per head"
        )
    values = {ours: _number(text, key) for key, ours in COMMON.items()}
    values |= {ours: _number(linear, key) for key, ours in LINEAR.items()}
    values["kinds"] = _kinds(text, linear)
    if (experts := len(values["kinds"]) * values["experts"]) > MOST_EXPERTS:
        raise ValueError(f"config.json: {experts:,} experts in all layers; at most {MOST_EXPERTS:,} are read")
    values["stored"] = _stored(official, text)
    values["quantization"] = quantization_of(official, text)
    is_k3 = any(key in text for key in K3_MARKS)
    values |= _k3(text, linear) if is_k3 else _kimi_linear(text, linear)
    return values | (_vision(official, text) if is_k3 and official.get("vision_config") else {})


def _k3(text: dict, linear: dict) -> dict:
    _fixed(text, K3_FIXED)
    if _need(linear, "use_full_rank_gate") is not True:
        raise ValueError(
            "config.json: use_full_rank_gate is not true; K3 is implemented with the full-rank gate"
        )
    floor = linear.get("gate_lower_bound")  # absent in small public K3s: softplus decay
    if floor is not None:
        floor = float(_number(linear, "gate_lower_bound"))
    sizes = {ours: _number(text, key) for key, ours in K3_ONLY.items()}
    return sizes | {"decay_floor": floor}


def _kimi_linear(text: dict, linear: dict) -> dict:
    _fixed(text, {"hidden_act": "silu", "q_lora_rank": None})
    return {
        "q_rank": None,
        "latent": None,
        "block": None,
        "gate_cap": None,
        "up_cap": None,
        "decay_floor": None,
        "gate_rank": _number(linear, "head_dim"),
        "mla_gate": False,
        "max_positions": _number(text, "model_max_length"),
    }


def _vision(official: dict, text: dict) -> dict:
    vision = _need(official, "vision_config", dict)
    _fixed(vision, VISION_FIXED)
    sizes = {ours: _number(vision, key) for key, ours in VISION.items()}
    equal = {
        "init_pos_emb_width": ("init_pos_emb_height", vision),
        "mm_hidden_size": ("vt_hidden_size", vision),
        "text_hidden_size": ("hidden_size", text),
    }
    for key, (other, section) in equal.items():
        if (value := _number(vision, key)) != (expected := _number(section, other)):
            raise ValueError(f"config.json: {key} is {value}, but {other} is {expected}; they must be equal")
    kernel = _need(vision, "merge_kernel_size", list)
    if len(kernel) != 2 or kernel[0] != kernel[1]:
        raise ValueError(f"config.json: merge_kernel_size is {short(kernel)}; only squares are implemented")
    merge = _number({"merge_kernel_size": kernel[0]}, "merge_kernel_size")
    return {
        "vision": VisionConfig(**sizes, merge=merge),
        "media_pad": _number(official, "media_placeholder_token_id"),
    }


def _stored(official: dict, text: dict) -> str:
    """The dtype of the checkpoint; the release and older files name the key differently."""
    dtypes = [c[key] for c in (official, text) for key in ("dtype", "torch_dtype") if c.get(key)]
    if dtypes and dtypes[0] not in STORED:
        raise ValueError(f"config.json: dtype is {short(dtypes[0])}; expected one of {', '.join(STORED)}")
    return dtypes[0] if dtypes else "bfloat16"


def _fixed(text: dict, table: dict) -> None:
    for key, value in table.items():
        if (actual := _need(text, key)) != value:
            raise ValueError(f"config.json: {key} is {short(actual)}; only {value!r} is implemented")


def _need(config: dict, key: str, kind: type = object):
    if key not in config:
        close = difflib.get_close_matches(key, config, 1)
        hint = f" (there is {short(close[0])}: a different key)" if close else ""
        raise ValueError(f"config.json: the key {key!r} is missing{hint}")
    if not isinstance(config[key], kind):
        raise ValueError(f"config.json: {key} is {short(config[key])}; expected {KINDS[kind]}")
    return config[key]


def _number(config: dict, key: str) -> int | float:
    """A number; one that LIMITS knows is a whole one and within them."""
    value, most = _need(config, key), LIMITS.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"config.json: {key} is {short(value)}; expected a number")
    if most is None and not (abs(value) < 1e30 and isfinite(value)):
        raise ValueError(
            f"config.json: {key} is {short(value)}; expected a number that a model can compute with"
        )
    if most is not None and not isinstance(value, int):
        raise ValueError(f"config.json: {key} is {value}; expected a whole number")
    if most is not None and value > most:
        written = f"{value:,}" if value < 10**20 else short(value)
        raise ValueError(f"config.json: {key} is {written}; at most {most:,} is read")
    return value


def _kinds(text: dict, linear: dict) -> tuple[str, ...]:
    """The kind of each layer. The official lists count from 1."""
    count = _number(text, "num_hidden_layers")
    kda, mla = (_layers(linear, key) for key in ("kda_layers", "full_attn_layers"))
    if both := kda & mla:
        raise ValueError(
            f"config.json: layers {sorted(both)[:8]} are in both kda_layers and full_attn_layers"
        )
    if (kda | mla) != set(range(1, count + 1)):
        odd = sorted((kda | mla) ^ set(range(1, count + 1)), key=str)
        raise ValueError(
            f"config.json: kda_layers and full_attn_layers must name each of the layers 1..{count} once; "
            f"missing or out of range: {odd[:8]}"
        )
    return tuple("kda" if i + 1 in kda else "mla" for i in range(count))


def _layers(linear: dict, key: str) -> set[int]:
    layers = _need(linear, key, list)
    if wrong := [layer for layer in layers if type(layer) is not int]:
        raise ValueError(f"config.json: {key} holds {short(wrong[0])}; expected the numbers of layers")
    return set(layers)

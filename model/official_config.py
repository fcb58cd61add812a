"""Read the official config.json."""

from reprlib import repr as short
from typing import Any

from k3scope.model.config_limits import MOST_LAYERS
from k3scope.model.config_values import (
    fixed,
    need,
    number,
    optional,
    positive,
    token_ids,
    whole,
    whole_or_none,
    written,
)
from k3scope.model.quantization.quantization import quantization_of
from k3scope.model.transformers_config import as_released
from k3scope.model.vision.vision_config import VisionConfig

# official key -> our field
COMMON = {
    "vocab_size": "vocab", "hidden_size": "d", "intermediate_size": "dense",
    "num_attention_heads": "heads", "kv_lora_rank": "kv_rank",
    "qk_nope_head_dim": "nope_dim", "qk_rope_head_dim": "shared_key_dim", "v_head_dim": "v_dim",
    "num_experts": "experts", "num_experts_per_token": "top_k", "moe_intermediate_size": "expert_dim",
}  # fmt: skip
FROM_ZERO = {"num_shared_experts": "shared_experts", "first_k_dense_replace": "dense_layers"}
CONSTANTS = {"routed_scaling_factor": "routed_scale", "rms_norm_eps": "eps", "initializer_range": "init_std"}
TOKENS = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "pad"}
K3_SIZES = {"q_lora_rank": "q_rank", "routed_expert_hidden_size": "latent"}
K3_CAPS = {"activation_situ_beta": "gate_cap", "activation_situ_linear_beta": "up_cap"}
LENGTH = ("max_position_embeddings", "model_max_length")  # of K3, of Kimi-Linear; either is read
STORED = ("bfloat16", "float16", "float32", "float64")
K3_MARKS = ("attn_res_block_size", "routed_expert_hidden_size", "activation_situ_beta", "latent_moe_use_norm")
LINEAR = {"num_heads": "kda_heads", "head_dim": "kda_head_dim", "short_conv_kernel_size": "conv"}
# keys that must have the one value these models implement
FIXED = {
    "mla_use_nope": True, "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
    "num_expert_group": 1, "topk_group": 1, "moe_layer_freq": 1,
    "num_nextn_predict_layers": 0,
}  # fmt: skip
K3_FIXED = {
    "hidden_act": "situ", "mla_use_output_gate": True, "topk_method": "noaux_tc", "latent_moe_use_norm": True,
}  # fmt: skip
VISION = {
    "vt_hidden_size": "d", "vt_num_hidden_layers": "layers", "vt_num_attention_heads": "heads",
    "qkv_hidden_size": "qkv", "vt_intermediate_size": "mlp", "init_pos_emb_height": "grid",
    "init_pos_emb_time": "frames", "patch_size": "patch",
}  # fmt: skip
VISION_EPS = {"projector_ln_eps": "projector_eps"}
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
    written_text = optional(official, "text_config", dict) or official
    text = as_released(written_text)
    linear = need(text, "linear_attn_config", dict)
    fixed(text, FIXED)
    values = {ours: whole(text, key) for key, ours in COMMON.items()}
    values |= {ours: whole_or_none(text, key, 0) or 0 for key, ours in FROM_ZERO.items()}
    values |= {ours: positive(text, key) for key, ours in CONSTANTS.items()}
    values |= {ours: whole(linear, key) for key, ours in LINEAR.items()}
    values |= _tokens(official, text, values["vocab"])
    values |= {"kinds": _kinds(text, linear), "stored": _stored(official, text)}
    values |= {"own_head": not _tied(official, text), "max_positions": _length(text)}
    values["quantization"] = quantization_of(official, written_text)
    is_k3 = any(text.get(key) for key in K3_MARKS)
    values |= _k3(text, linear) if is_k3 else _kimi_linear(text, linear)
    _contradictions(text, values)
    return values | (_vision(official, text) if is_k3 and official.get("vision_config") is not None else {})


def _k3(text: dict, linear: dict) -> dict:
    fixed(text, K3_FIXED)
    if need(linear, "use_full_rank_gate") is not True:
        raise ValueError(
            "config.json: use_full_rank_gate is not true; K3 is implemented with the full-rank gate"
        )
    floor = linear.get("gate_lower_bound")  # absent in small public K3s: softplus decay
    if floor is not None:
        floor = float(number(linear, "gate_lower_bound"))
        if floor >= 0:
            raise ValueError(
                f"config.json: gate_lower_bound is {short(floor)}; expected a negative log-decay such as -5.0"
            )
    sizes = {ours: whole(text, key) for key, ours in K3_SIZES.items()}
    sizes |= {ours: positive(text, key) for key, ours in K3_CAPS.items()}
    sizes["block"] = whole_or_none(text, "attn_res_block_size", 0) or None
    return sizes | {"decay_floor": floor}


def _kimi_linear(text: dict, linear: dict) -> dict:
    fixed(text, {"hidden_act": "silu"})
    if text.get("q_lora_rank") is not None:
        raise ValueError(
            f"config.json: q_lora_rank is {short(text['q_lora_rank'])}; Kimi-Linear is implemented without"
        )
    return {
        "q_rank": None,
        "latent": None,
        "block": None,
        "gate_cap": None,
        "up_cap": None,
        "decay_floor": None,
        "gate_rank": whole(linear, "head_dim"),
        "mla_gate": False,
    }


def _contradictions(text: dict, values: dict) -> None:
    """Sizes that are possible one by one and not together."""
    layers = len(values["kinds"])
    if (key_heads := whole_or_none(text, "num_key_value_heads")) not in (None, values["heads"]):
        raise ValueError(
            f"config.json: num_key_value_heads is {written(key_heads)}, but num_attention_heads is "
            f"{values['heads']:,}; MLA has one per head"
        )
    if values["dense_layers"] > layers:
        raise ValueError(
            f"config.json: first_k_dense_replace is {values['dense_layers']:,}, but num_hidden_layers is "
            f"{layers:,}; expected at most as many"
        )
    if values["top_k"] >= values["experts"]:
        raise ValueError(
            f"config.json: num_experts_per_token is {values['top_k']:,}, but num_experts is "
            f"{values['experts']:,}; expected fewer choices than experts"
        )


def _tokens(official: dict, text: dict, vocab: int) -> dict:
    """Ids of tokens. A list of end tokens is one of several: generation ends at any."""
    ids = {ours: token_ids((text, official), key) for key, ours in TOKENS.items()}
    for key, ours in TOKENS.items():  # those that are read; an end that never comes does no harm
        if ours != "eos" and ids[ours] and ids[ours][0] >= vocab:
            raise ValueError(f"config.json: {key} is {ids[ours][0]:,}, but vocab_size is {vocab:,}")
    first = {ours: found[0] for ours, found in ids.items() if found}
    return {"bos": 0, "eos": -1, "pad": 0} | first | {"other_eos": ids["eos"][1:]}


def _tied(official: dict, text: dict) -> bool:
    """Whether the LM head is the embedding table; either half of the file may say so."""
    said = {}
    for where, section in (("", official), ("text_config.", text)):
        value = section.get("tie_word_embeddings")
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"config.json: tie_word_embeddings is {short(value)}; expected true or false")
        if value is not None:
            said[where] = value
    if len(set(said.values())) > 1:
        raise ValueError(
            f"config.json: tie_word_embeddings is {str(said['']).lower()}, but in text_config it is "
            f"{str(said['text_config.']).lower()}; expected one value"
        )
    return True in said.values()


def _length(text: dict) -> int:
    key = next((key for key in LENGTH if text.get(key) is not None), LENGTH[0])
    return whole(text, key)


def _vision(official: dict, text: dict) -> dict:
    vision = need(official, "vision_config", dict)
    fixed(vision, VISION_FIXED)
    sizes = {ours: whole(vision, key) for key, ours in VISION.items()}
    sizes |= {ours: positive(vision, key) for key, ours in VISION_EPS.items()}
    equal = {
        "init_pos_emb_width": ("init_pos_emb_height", vision),
        "mm_hidden_size": ("vt_hidden_size", vision),
        "text_hidden_size": ("hidden_size", text),
    }
    for key, (other, section) in equal.items():
        if (value := whole(vision, key)) != (expected := whole(section, other)):
            raise ValueError(f"config.json: {key} is {value}, but {other} is {expected}; they must be equal")
    if sizes["qkv"] % (4 * sizes["heads"]):
        raise ValueError(
            f"config.json: qkv_hidden_size is {sizes['qkv']:,}, but vt_num_attention_heads is "
            f"{sizes['heads']:,}; two-dimensional rotary angles need a head width divisible by 4"
        )
    kernel = need(vision, "merge_kernel_size", list)
    if len(kernel) != 2 or kernel[0] != kernel[1]:
        raise ValueError(f"config.json: merge_kernel_size is {short(kernel)}; only squares are implemented")
    merge = whole({"merge_kernel_size": kernel[0]}, "merge_kernel_size")
    media_pad, vocab = whole(official, "media_placeholder_token_id", 0), whole(text, "vocab_size")
    if media_pad >= vocab:
        raise ValueError(
            f"config.json: media_placeholder_token_id is {media_pad:,}, but vocab_size is {vocab:,}"
        )
    return {"vision": VisionConfig(**sizes, merge=merge), "media_pad": media_pad}


def _stored(official: dict, text: dict) -> str:
    """The dtype of the checkpoint; the release and older files name the key differently."""
    dtypes = [c[key] for c in (official, text) for key in ("dtype", "torch_dtype") if c.get(key) is not None]
    name = dtypes[0].removeprefix("torch.") if dtypes and isinstance(dtypes[0], str) else "bfloat16"
    if dtypes and (not isinstance(dtypes[0], str) or name not in STORED):
        raise ValueError(f"config.json: dtype is {short(dtypes[0])}; expected one of {', '.join(STORED)}")
    return name


def _kinds(text: dict, linear: dict) -> tuple[str, ...]:
    """The kind of each layer. The official lists count from 1."""
    count = whole(text, "num_hidden_layers")
    kda, mla = (_layers(linear, key) for key in ("kda_layers", "full_attn_layers"))
    if both := kda & mla:
        raise ValueError(
            f"config.json: layers {short(sorted(both)[:8])} are in both kda_layers and full_attn_layers"
        )
    if (kda | mla) != set(range(1, count + 1)):
        odd = sorted((kda | mla) ^ set(range(1, count + 1)))
        raise ValueError(
            f"config.json: kda_layers and full_attn_layers must name each of the layers 1..{count} once; "
            f"missing or out of range: {short(odd[:8])}"
        )
    return tuple("kda" if i + 1 in kda else "mla" for i in range(count))


def _layers(linear: dict, key: str) -> set[int]:
    layers = need(linear, key, list)
    if len(layers) > MOST_LAYERS:
        raise ValueError(f"config.json: {key} has {len(layers):,} entries; at most {MOST_LAYERS:,} are read")
    whole_numbers = [int(n) if type(n) is float and n == n // 1 else n for n in layers]
    if wrong := [layer for layer in whole_numbers if type(layer) is not int]:
        raise ValueError(f"config.json: {key} holds {short(wrong[0])}; expected the numbers of layers")
    if len(found := set(whole_numbers)) < len(whole_numbers):
        twice = next(n for i, n in enumerate(whole_numbers) if n in whole_numbers[:i])
        raise ValueError(f"config.json: {key} names layer {written(twice)} twice")
    return found

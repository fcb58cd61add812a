"""Write the official config.json of a Config: the inverse of `official_config.config_fields`."""

from typing import Any

from k3scope.model.config import Config
from k3scope.model.official_config import (
    COMMON,
    CONSTANTS,
    FIXED,
    FROM_ZERO,
    K3_CAPS,
    K3_FIXED,
    K3_SIZES,
    LENGTH,
    LINEAR,
    VISION,
    VISION_EPS,
    VISION_FIXED,
)


def document(c: Config) -> dict[str, Any]:
    """The config.json that `Config.from_official` reads as `c`."""
    official = _k3(c) if c.family == "k3" else _kimi_linear(c)
    if c.quantization:
        section = official["text_config"] if c.quantization.nested and "text_config" in official else official
        section["quantization_config"] = c.quantization.content
    return official


def _k3(c: Config) -> dict:
    text = {"model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"]} | _text(c)
    text |= K3_FIXED | {key: getattr(c, ours) for key, ours in (K3_SIZES | K3_CAPS).items()}
    text |= {"attn_res_block_size": c.block, LENGTH[0]: c.max_positions}
    text["linear_attn_config"]["use_full_rank_gate"] = True
    if c.decay_floor is not None:
        text["linear_attn_config"]["gate_lower_bound"] = c.decay_floor
    official = {"model_type": "kimi_k3", "architectures": ["KimiK3ForConditionalGeneration"]} | _tokens(c)
    official |= {"dtype": c.stored, "tie_word_embeddings": not c.own_head, "text_config": text}
    return official | (_vision(c) if c.vision else {})


def _kimi_linear(c: Config) -> dict:
    head = {"model_type": "kimi_linear", "architectures": ["KimiLinearForCausalLM"], "dtype": c.stored}
    other = {"hidden_act": "silu", "q_lora_rank": None, LENGTH[1]: c.max_positions}
    return head | _text(c) | other


def _text(c: Config) -> dict:
    linear = {key: getattr(c, ours) for key, ours in LINEAR.items()}
    for key, kind in (("kda_layers", "kda"), ("full_attn_layers", "mla")):
        linear[key] = [i + 1 for i, k in enumerate(c.kinds) if k == kind]  # counted from 1
    sizes = {key: getattr(c, ours) for key, ours in (COMMON | FROM_ZERO | CONSTANTS).items()}
    sizes |= _tokens(c) | {"tie_word_embeddings": not c.own_head}
    sizes |= {"num_hidden_layers": c.layers, "num_key_value_heads": c.heads}
    return sizes | FIXED | {"use_grouped_topk": True, "linear_attn_config": linear}


def _tokens(c: Config) -> dict:
    end = list(c.stops) if c.other_eos else c.eos
    return {"bos_token_id": c.bos, "eos_token_id": end, "pad_token_id": c.pad}


def _vision(c: Config) -> dict:
    v = c.vision
    sizes = {key: getattr(v, ours) for key, ours in (VISION | VISION_EPS).items()}
    sizes |= {
        "init_pos_emb_width": v.grid, "mm_hidden_size": v.d, "text_hidden_size": c.d,
        "merge_kernel_size": [v.merge, v.merge],
    }  # fmt: skip
    return {"media_placeholder_token_id": c.media_pad, "vision_config": sizes | VISION_FIXED}

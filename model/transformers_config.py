"""Kimi-Linear's config.json as the transformers library writes it, in the keys of the release."""

from reprlib import repr as short
from typing import Any

from k3scope.model.config_values import need, optional, whole, written

# the release's key -> what else it is called; a file may hold either, or both with one value
ALIASES = {
    "moe_renormalize": ("norm_topk_prob",),
    "num_expert_group": ("n_group",),
    "num_experts": ("num_local_experts", "n_routed_experts"),
    "num_experts_per_token": ("num_experts_per_tok",),
    "num_shared_experts": ("n_shared_experts",),
    "num_nextn_predict_layers": ("num_mtp_layers",),
}
LINEAR = {
    "num_heads": ("linear_num_heads", "linear_num_key_heads"),
    "head_dim": ("linear_head_dim", "linear_key_head_dim"),
    "short_conv_kernel_size": ("linear_conv_kernel_dim",),
}
KINDS = {
    "linear_attention": "kda_layers", "kda_attention": "kda_layers", "full_attention": "full_attn_layers",
}  # fmt: skip
# what its code has no key for, and does
ASSUMED = {
    "mla_use_nope": True, "moe_router_activation_func": "sigmoid", "moe_layer_freq": 1,
    "num_nextn_predict_layers": 0,
}  # fmt: skip


def as_released(text: dict[str, Any]) -> dict[str, Any]:
    """The same sizes under the keys of the release; a file that has those is returned with them alone.

    ValueError when two keys for one size have different values, or a layer has an unknown kind.
    """
    named = {key: _one_of(text, (key, *others)) for key, others in ALIASES.items()}
    text = text | {key: value for key, value in named.items() if value is not None}
    if optional(text, "layer_types", list) is None or text.get("linear_attn_config") is not None:
        return text
    kinds = _layers(text, "layer_types", KINDS)
    linear: dict[str, Any] = {key: _one_of(text, others) for key, others in LINEAR.items()}
    linear = {key: value for key, value in linear.items() if value is not None}
    for official in ("kda_layers", "full_attn_layers"):
        linear[official] = [n + 1 for n, kind in enumerate(kinds) if KINDS[kind] == official]
    if text.get("use_full_rank_gate") is not None:
        linear["use_full_rank_gate"] = text["use_full_rank_gate"]
    return ASSUMED | text | {"linear_attn_config": linear} | _dense(text)


def _dense(text: dict[str, Any]) -> dict[str, int]:
    """How many leading layers are dense, of a list that says it layer by layer."""
    if optional(text, "mlp_layer_types", list) is None:
        return {}
    kinds = _layers(text, "mlp_layer_types", ("dense", "sparse"))
    count = kinds.index("sparse") if "sparse" in kinds else len(kinds)
    if "dense" in kinds[count:]:
        layer = count + kinds[count:].index("dense")
        raise ValueError(
            f"config.json: mlp_layer_types has a dense layer {layer} behind a sparse one; "
            f"only leading layers can be dense"
        )
    if text.get("first_k_dense_replace", count) not in (None, count):
        raise ValueError(
            f"config.json: first_k_dense_replace is {_said(text['first_k_dense_replace'])}, but "
            f"mlp_layer_types begins with {count:,} dense layers"
        )
    return {"first_k_dense_replace": count}


def _layers(text: dict[str, Any], key: str, known) -> list[str]:
    kinds, count = need(text, key, list), whole(text, "num_hidden_layers")
    if len(kinds) != count:
        raise ValueError(f"config.json: {key} has {len(kinds):,} entries, but num_hidden_layers is {count:,}")
    for kind in kinds:
        if not isinstance(kind, str) or kind not in known:
            raise ValueError(f"config.json: {key} holds {short(kind)}; expected one of {', '.join(known)}")
    return kinds


def _one_of(text: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """The value of whichever of these keys there is; None for none."""
    found = [(key, text[key]) for key in keys if text.get(key) is not None]
    for key, value in found[1:]:
        if value != found[0][1] or isinstance(value, bool) != isinstance(found[0][1], bool):
            pairs = " and ".join(f"{k} is {_said(v)}" for k, v in (found[0], (key, value)))
            raise ValueError(f"config.json: {pairs}; they are two names of one value")
    return found[0][1] if found else None


def _said(value: Any) -> str:
    return written(value) if type(value) is int else short(value)

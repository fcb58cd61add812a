"""The sizes of a model: one frozen record, read from the official config.json."""

import difflib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Config:
    """Every size and constant of the text model; the field names are the vocabulary of the whole project."""

    vocab: int
    d: int
    kinds: tuple[str, ...]  # "kda" or "mla", one per layer
    dense_layers: int  # leading layers with a dense FFN
    dense: int  # width of the dense FFN
    kda_heads: int
    kda_head_dim: int
    conv: int  # kernel of the short convolutions
    decay_floor: float | None  # None: softplus decay without a floor
    heads: int  # of MLA
    q_rank: int
    kv_rank: int
    nope_dim: int
    shared_key_dim: int  # official name qk_rope_head_dim; nothing is rotated
    v_dim: int
    experts: int
    top_k: int
    shared_experts: int
    expert_dim: int
    latent: int
    block: int  # layers per AttnRes block
    routed_scale: float = 1.0
    gate_cap: float = 4.0
    up_cap: float = 25.0
    eps: float = 1e-5
    latent_eps: float = 1e-6  # q_a and kv_a norms keep their class default in the official code
    l2_eps: float = 1e-6
    init_std: float = 0.02
    max_positions: int = 1048576
    bos: int = 0
    eos: int = 0
    pad: int = 0
    a_log_stored: int = field(default=0)  # entries of A_log in the checkpoint; 0 means kda_heads

    def __post_init__(self):
        if not self.a_log_stored:
            object.__setattr__(self, "a_log_stored", self.kda_heads)
        _check(self)

    @property
    def layers(self) -> int:
        return len(self.kinds)

    def candidates(self, layer: int, mix: str) -> int:
        """How many sources a mix reads: stored blocks plus the running sum. `mix` is "attn" or "ffn"."""
        stored = -(-layer // self.block) if mix == "attn" else layer // self.block + 1
        return stored + 1

    def sizes(self) -> dict[str, int | float]:
        """Numbers by name, for formulas."""
        names = [n for n in self.__dataclass_fields__ if n != "kinds"]
        return {n: v for n in names if (v := getattr(self, n)) is not None} | {"layers": self.layers}

    @classmethod
    def from_official(cls, official: dict[str, Any]) -> "Config":
        """Read an official config.json (`text_config` nested or flat). ValueError names the key at fault."""
        return _from_official(cls, official)


def _check(c: Config) -> None:
    for name, value in c.sizes().items():
        optional = name in ("decay_floor", "bos", "eos", "pad")
        if not optional and not value > 0:
            raise ValueError(f"Config.{name} is {value!r}; expected a positive number")
    if unknown := set(c.kinds) - {"kda", "mla"}:
        raise ValueError(f"Config.kinds has {sorted(unknown)}; expected only 'kda' and 'mla'")
    if c.top_k >= c.experts:
        raise ValueError(f"top_k is {c.top_k} with {c.experts} experts; expected fewer choices than experts")
    if c.a_log_stored < c.kda_heads:
        raise ValueError(f"a_log_stored is {c.a_log_stored}; expected at least kda_heads = {c.kda_heads}")
    if c.decay_floor is not None and c.decay_floor >= 0:
        raise ValueError(f"decay_floor is {c.decay_floor}; expected a negative log-decay such as -5.0")


# official key -> our field
_PLAIN = {
    "vocab_size": "vocab", "hidden_size": "d", "intermediate_size": "dense",
    "num_attention_heads": "heads", "q_lora_rank": "q_rank", "kv_lora_rank": "kv_rank",
    "qk_nope_head_dim": "nope_dim", "qk_rope_head_dim": "shared_key_dim", "v_head_dim": "v_dim",
    "num_experts": "experts", "num_experts_per_token": "top_k", "num_shared_experts": "shared_experts",
    "moe_intermediate_size": "expert_dim", "routed_expert_hidden_size": "latent",
    "first_k_dense_replace": "dense_layers", "attn_res_block_size": "block",
    "routed_scaling_factor": "routed_scale", "rms_norm_eps": "eps", "activation_situ_beta": "gate_cap",
    "activation_situ_linear_beta": "up_cap", "initializer_range": "init_std",
    "max_position_embeddings": "max_positions",
    "bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "pad",
}  # fmt: skip
_LINEAR = {"num_heads": "kda_heads", "head_dim": "kda_head_dim", "short_conv_kernel_size": "conv"}
# keys that must have the one value this model implements
_FIXED = {
    "hidden_act": "situ", "mla_use_nope": True, "mla_use_output_gate": True, "moe_renormalize": True,
    "moe_router_activation_func": "sigmoid", "topk_method": "noaux_tc", "num_expert_group": 1,
    "topk_group": 1, "moe_layer_freq": 1, "latent_moe_use_norm": True, "tie_word_embeddings": False,
    "num_nextn_predict_layers": 0,
}  # fmt: skip


def _from_official(cls, official):
    text = official.get("text_config", official)
    linear = _need(text, "linear_attn_config", dict)
    for key, value in _FIXED.items():
        if (found := _need(text, key)) != value:
            raise ValueError(f"config.json: {key} is {found!r}; this model implements only {value!r}")
    if _need(linear, "use_full_rank_gate") is not True:
        raise ValueError(
            "config.json: use_full_rank_gate is not true; this model implements only the full-rank gate"
        )
    if _need(text, "num_key_value_heads") != text["num_attention_heads"]:
        raise ValueError(
            "config.json: num_key_value_heads differs from num_attention_heads; MLA has one per head"
        )
    values = {ours: _number(text, key) for key, ours in _PLAIN.items()}
    values |= {ours: _number(linear, key) for key, ours in _LINEAR.items()}
    floor = _need(linear, "gate_lower_bound", type(None) | float | int)
    return cls(kinds=_kinds(text, linear), decay_floor=floor, **values)


def _need(config: dict, key: str, kind: type = object):
    if key not in config:
        close = difflib.get_close_matches(key, config, 1)
        hint = f" (there is {close[0]!r}: a different key)" if close else ""
        raise ValueError(f"config.json: the key {key!r} is missing{hint}")
    if not isinstance(config[key], kind):
        raise ValueError(f"config.json: {key} is {config[key]!r}; expected {getattr(kind, '__name__', kind)}")
    return config[key]


def _number(config: dict, key: str) -> int | float:
    value = _need(config, key, int | float)
    if isinstance(value, bool):
        raise ValueError(f"config.json: {key} is {value!r}; expected a number")
    return value


def _kinds(text: dict, linear: dict) -> tuple[str, ...]:
    """The kind of each layer. The official lists count from 1."""
    count = _number(text, "num_hidden_layers")
    kda = set(_need(linear, "kda_layers", list))
    mla = set(_need(linear, "full_attn_layers", list))
    if both := kda & mla:
        raise ValueError(f"config.json: layers {sorted(both)} are in both kda_layers and full_attn_layers")
    if (kda | mla) != set(range(1, count + 1)):
        odd = sorted((kda | mla) ^ set(range(1, count + 1)))
        raise ValueError(
            f"config.json: kda_layers and full_attn_layers must name each of the layers 1..{count} once; "
            f"missing or out of range: {odd[:8]}"
        )
    return tuple("kda" if i + 1 in kda else "mla" for i in range(count))

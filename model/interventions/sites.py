"""Where an intervention acts: the hook points whose outputs it replaces, and whether the model has them."""

from collections.abc import Callable

from torch import Tensor

from k3scope.model.config import Config
from k3scope.model.interventions.intervention import ATTENTION, OUTPUT, Intervention

SiteView = Callable[[Tensor], Tensor]  # the part of an output that is replaced, as a view [B, T, ...] into it
_TEXT = "language_model.model."


def site_view(config: Config, intervention: Intervention, layer: int | None) -> SiteView:
    index = intervention.index
    match intervention.what:
        case "head" if config.kinds[layer] == "mla" and config.mla_gate:
            return lambda out: out.unflatten(-1, (config.heads, -1))[:, :, index]
        case "head":
            return lambda out: out[:, :, index]
        case "mix":
            return lambda out: out[..., index]
        case "decay" if index is not None:
            return lambda out: out[:, :, index]
    return lambda out: out


def paths(config: Config, intervention: Intervention, layer: int | None) -> list[str]:
    """Hook points whose outputs an intervention reads and replaces."""
    inside = f"{_TEXT}layers.{layer}."
    ffn = "mlp" if layer is not None and layer < config.dense_layers else "block_sparse_moe"
    match intervention.what:
        case "head":
            gated = config.kinds[layer] == "kda" or config.mla_gate
            return [inside + "self_attn." + ("gated" if gated else "attention")]
        case "expert":
            return [inside + "block_sparse_moe.gate.topk_idx", inside + "block_sparse_moe.experts"]
        case "mix" if intervention.place == OUTPUT:
            return [_TEXT + "output_attn_res.probs"]
        case "mix":
            return [
                inside + ("self_attention_res" if intervention.place == ATTENTION else "mlp_res") + ".probs"
            ]
        case "sublayer":
            return [inside + ("self_attn" if intervention.place == ATTENTION else ffn)]
        case "token" if layer is None:
            return [_TEXT + ("splice" if config.family == "k3" else "embed_tokens")]
        case "token":
            return [inside + "prefix_sum"]
        case "routes":
            return [inside + "block_sparse_moe.gate.topk_idx"]
    return [inside + "self_attn.decay"]


def layers(config: Config, intervention: Intervention) -> list[int | None]:
    if intervention.layer is not None or intervention.what in ("token", "mix"):
        return [intervention.layer]
    if intervention.what == "routes":
        return list(range(config.dense_layers, config.layers))
    return [layer for layer, kind in enumerate(config.kinds) if kind == "kda"]


def check(config: Config, intervention: Intervention) -> None:
    """ValueError when the model has no such layer, head, expert or candidate."""
    layer, what = intervention.layer, intervention.what
    if layer is not None and not 0 <= layer < config.layers:
        raise ValueError(f"{intervention}: this model has layers 0 to {config.layers - 1}")
    if what == "mix" and not config.block:
        raise ValueError(f"{intervention}: this model has no mixes over depth")
    if what in ("expert", "routes") and not config.moe_layers:
        raise ValueError(f"{intervention}: this model has no experts")
    if what == "decay" and not config.kda_layers:
        raise ValueError(f"{intervention}: this model has no KDA layers and no decay")
    if what in ("expert", "routes") and layer is not None and layer < config.dense_layers:
        raise ValueError(f"{intervention}: layer {layer} has a dense FFN and no experts")
    if what == "decay" and layer is not None and config.kinds[layer] != "kda":
        raise ValueError(f"{intervention}: layer {layer} is MLA and has no decay")
    if intervention.index is not None and not 0 <= intervention.index < (
        count := _count(config, intervention)
    ):
        raise ValueError(f"{intervention}: there are {count}, numbered from 0")
    if intervention.do == "force":
        _check_experts(config, intervention)


def _check_experts(config: Config, intervention: Intervention) -> None:
    chosen = intervention.experts
    if len(set(chosen)) != config.top_k or min(chosen) < 0 or max(chosen) >= config.experts:
        raise ValueError(
            f"{intervention}: expected {config.top_k} different experts of 0 to {config.experts - 1}"
        )


def _count(config: Config, intervention: Intervention) -> int:
    """How many things `index` chooses from."""
    match intervention.what:
        case "expert":
            return config.experts
        case "mix":
            if intervention.place == OUTPUT:
                return config.candidates(config.layers - 1, "ffn")
            count = config.candidates(
                intervention.layer, "attn" if intervention.place == ATTENTION else "ffn"
            )
            return 0 if count == 1 else count  # layer 0 reads the embedding as it is
        case "head" if config.kinds[intervention.layer] == "mla":
            return config.heads
        case "head" | "decay":
            return config.kda_heads
    return 0

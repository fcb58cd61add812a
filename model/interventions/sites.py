"""Where an intervention acts: the outputs of the model it replaces, and whether the model has them."""

from collections.abc import Callable

from torch import Tensor

from k3scope.model.config import Config
from k3scope.model.interventions.intervention import ATTENTION, OUTPUT, Intervention

SiteView = Callable[[Tensor], Tensor]  # the part of an output that is replaced, as a view [B, T, ...] into it
_TEXT = "language_model.model."


def slot(config: Config, change: Intervention, layer: int | None) -> SiteView:
    index = change.index
    match change.what:
        case "head" if config.kinds[layer] == "mla" and config.mla_gate:
            return lambda out: out.unflatten(-1, (config.heads, -1))[:, :, index]
        case "head":
            return lambda out: out[:, :, index]
        case "mix":
            return lambda out: out[..., index]
        case "decay" if index is not None:
            return lambda out: out[:, :, index]
    return lambda out: out


def paths(config: Config, change: Intervention, layer: int | None) -> list[str]:
    """Outputs that a change looks at and replaces."""
    inside = f"{_TEXT}layers.{layer}."
    ffn = "mlp" if layer is not None and layer < config.dense_layers else "block_sparse_moe"
    match change.what:
        case "head":
            gated = config.kinds[layer] == "kda" or config.mla_gate
            return [inside + "self_attn." + ("gated" if gated else "attention")]
        case "expert":
            return [inside + "block_sparse_moe.gate.topk_idx", inside + "block_sparse_moe.experts"]
        case "mix" if change.place == OUTPUT:
            return [_TEXT + "output_attn_res.probs"]
        case "mix":
            return [inside + ("self_attention_res" if change.place == ATTENTION else "mlp_res") + ".probs"]
        case "sublayer":
            return [inside + ("self_attn" if change.place == ATTENTION else ffn)]
        case "token" if layer is None:
            return [_TEXT + ("splice" if config.block else "embed_tokens")]
        case "token":
            return [inside + "prefix_sum"]
        case "routes":
            return [inside + "block_sparse_moe.gate.topk_idx"]
    return [inside + "self_attn.decay"]


def layers(config: Config, change: Intervention) -> list[int | None]:
    if change.layer is not None or change.what in ("token", "mix"):
        return [change.layer]
    if change.what == "routes":
        return list(range(config.dense_layers, config.layers))
    return [layer for layer, kind in enumerate(config.kinds) if kind == "kda"]


def check(config: Config, change: Intervention) -> None:
    """ValueError when the model has no such layer, head, expert or candidate."""
    layer, what = change.layer, change.what
    if layer is not None and not 0 <= layer < config.layers:
        raise ValueError(f"{change}: this model has layers 0 to {config.layers - 1}")
    if what == "mix" and not config.block:
        raise ValueError(f"{change}: this model has no mixes over depth")
    if what in ("expert", "routes") and layer is not None and layer < config.dense_layers:
        raise ValueError(f"{change}: layer {layer} has a dense FFN and no experts")
    if what == "decay" and layer is not None and config.kinds[layer] != "kda":
        raise ValueError(f"{change}: layer {layer} is MLA and has no decay")
    if change.index is not None and not 0 <= change.index < (count := _count(config, change)):
        raise ValueError(f"{change}: there are {count}, numbered from 0")
    if change.do == "force":
        _check_experts(config, change)


def _check_experts(config: Config, change: Intervention) -> None:
    chosen = change.experts
    if len(set(chosen)) != config.top_k or min(chosen) < 0 or max(chosen) >= config.experts:
        raise ValueError(f"{change}: expected {config.top_k} different experts of 0 to {config.experts - 1}")


def _count(config: Config, change: Intervention) -> int:
    """How many things `index` chooses from."""
    match change.what:
        case "expert":
            return config.experts
        case "mix":
            if change.place == OUTPUT:
                return config.candidates(config.layers - 1, "ffn")
            count = config.candidates(change.layer, "attn" if change.place == ATTENTION else "ffn")
            return 0 if count == 1 else count  # layer 0 reads the embedding as it is
        case "head" if config.kinds[change.layer] == "mla":
            return config.heads
        case "head" | "decay":
            return config.kda_heads
    return 0

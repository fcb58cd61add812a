"""Record which experts a run chose, force them on another, and compare where two runs part."""

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.tracing import Trace

NAME = "layers.{}.router.topk_idx"


def routes_of(trace: Trace) -> dict[int, Tensor]:
    """Chosen experts by layer, each [B, T, top_k]."""
    end = ".block_sparse_moe.gate.topk_idx"
    return {int(p.split(".layers.")[1].split(".")[0]): v for p, v in trace.values.items() if p.endswith(end)}


def save_routes(routes: dict[int, Tensor], path: str | Path) -> None:
    save_file({NAME.format(layer): index.contiguous() for layer, index in routes.items()}, path)


def load_routes(path: str | Path) -> dict[int, Tensor]:
    """Routes from a file of `save_routes` or of `k3scope trace`. ValueError when it has none."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a safetensors file that can be read ({error})") from None
    routes = {int(n.split(".")[1]): t for n, t in tensors.items() if n.endswith(".router.topk_idx")}
    if not routes:
        raise ValueError(f"{path}: no tensor named {NAME.format('N')}; expected routes or a trace")
    return routes


def forced(model: KimiK3, routes: dict[int, Tensor]) -> dict:
    """Edits for `trace` that replace the choice of experts; weights follow from the run's own scores.

    ValueError when the routes do not fit the model.
    """
    c = model.config
    expected = set(range(c.dense_layers, c.layers))
    if routes.keys() != expected:
        raise ValueError(
            f"routes are of layers {sorted(routes)}; this model has experts in {sorted(expected)}"
        )
    for layer, index in routes.items():
        if index.shape[-1] != c.top_k or index.max() >= c.experts:
            raise ValueError(
                f"layer {layer}: routes pick {index.shape[-1]} of {int(index.max()) + 1} or more experts; "
                f"this model picks {c.top_k} of {c.experts}"
            )
    prefix = "language_model.model.layers."
    return {
        f"{prefix}{layer}.block_sparse_moe.gate.topk_idx": _replace(layer, index)
        for layer, index in routes.items()
    }


def _replace(layer: int, index: Tensor):
    def edit(chosen: Tensor) -> Tensor:
        if chosen.shape != index.shape:
            raise ValueError(
                f"layer {layer}: routes are for {tuple(index.shape)}, the run has {tuple(chosen.shape)}"
            )
        return index.to(chosen.device)

    return edit


@dataclass(frozen=True)
class Agreement:
    """How two runs' choices compare in one layer."""

    layer: int
    share: float  # of (token, expert) choices that both runs made
    tokens_apart: int  # tokens with at least one other expert
    widest_margin: float | None  # largest margin at a token where they differ; a tie explains a small one


def agreement(
    ours: dict[int, Tensor], theirs: dict[int, Tensor], margins: dict[int, Tensor]
) -> list[Agreement]:
    """Layer by layer. `margins`: layer -> [B, T], k-th minus (k+1)-th biased score of one of the runs."""
    rows = []
    for layer in sorted(ours.keys() & theirs.keys()):
        same = (ours[layer][..., :, None] == theirs[layer][..., None, :]).any(-1)  # [B, T, top_k]
        apart = ~same.all(-1)
        margin = margins.get(layer)
        widest = float(margin[apart].max()) if margin is not None and apart.any() else None
        rows.append(Agreement(layer, same.double().mean().item(), int(apart.sum()), widest))
    return rows

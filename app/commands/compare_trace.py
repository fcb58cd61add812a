"""Find the first block in which two traces disagree, and by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from k3scope.model.runs.trace_diff import TraceDifference


def arguments(parser) -> None:
    parser.add_argument("ours", help="safetensors file of k3scope trace, or with the same tensor names")
    parser.add_argument("theirs", help="the reference")
    parser.add_argument("--tolerance", type=float, default=2e-4, help="relative to the largest magnitude")
    parser.add_argument("--all", action="store_true", help="list every tensor, not only the worst per kind")


def run(options) -> int:
    """Exit status 1 when they disagree."""
    from k3scope.app.commands.tensor_files import read_tensors
    from k3scope.model.runs.trace_diff import compare, first_beyond

    ours, theirs = read_tensors(options.ours), read_tensors(options.theirs)
    differences = compare(ours, theirs)
    for d in differences if options.all else _worst_by_kind(differences):
        print(f"{d.name:44s} {d.problem or f'{d.error:.1e}'}")
    _print_routes(ours, theirs)
    first = first_beyond(differences, options.tolerance)
    if first is None:
        print(f"\nall {len(differences)} shared tensors agree within {options.tolerance:g}")
        return 0
    print(f"\nfirst to disagree: {first.name}, {first.problem or f'off by {first.error:.1e}'}")
    return 1


def _worst_by_kind(differences: list[TraceDifference]) -> list[TraceDifference]:
    worst: dict[str, TraceDifference] = {}
    for d in differences:
        kind = d.name.split(".", 2)[-1] if d.name.startswith("layers.") else d.name
        if kind not in worst or d.error > worst[kind].error:
            worst[kind] = d
    return list(worst.values())


def _print_routes(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    from k3scope.model.interventions.forced_routing import agreement

    weights = [_by_layer(t, "router.topk_weight") for t in (ours, theirs)]
    bad = {n for by_layer in weights for n, weight in by_layer.items() if not weight.isfinite().all()}
    routes = [_by_layer(t, "router.topk_idx") for t in (ours, theirs)]
    routes = [{n: index for n, index in by_layer.items() if n not in bad} for by_layer in routes]
    if bad:
        print(f"layers {', '.join(map(str, sorted(bad)))}: scores that are not finite choose no experts")
    apart = [a for a in agreement(*routes, _by_layer(theirs, "router.margin")) if a.tokens_apart]
    for a in apart:
        margin = "" if a.widest_margin is None else f", widest margin among them {a.widest_margin:.1e}"
        print(f"layer {a.layer}: {a.share:.2%} of the choices agree, {a.tokens_apart} tokens differ{margin}")
    if apart:
        print("run k3scope trace again with --routes THEIRS to compare with the same experts")


def _by_layer(tensors: dict[str, Tensor], end: str) -> dict[int, Tensor]:
    return {
        int(n.split(".")[1]): t for n, t in tensors.items() if n.startswith("layers.") and n.endswith(end)
    }

"""Interventions as edits of a forward pass: which output each replaces, and by what."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor

from k3scope.model.config import Config
from k3scope.model.interventions import sites
from k3scope.model.interventions.intervention import Intervention
from k3scope.model.tracing import Trace

Edit = Callable[[Tensor], Tensor]


def edits(
    config: Config, changes: Iterable[Intervention], sources: Mapping[str, Trace] | None = None
) -> dict[str, Edit]:
    """Edits for `trace` and `observe`; several changes of one output apply in turn. For one pass only.

    `sources`: traces to patch from, by run, with the points that `source_points` names. ValueError for a
    change that does not fit the model.
    """
    found: dict[str, list[Edit]] = {}
    for change in changes:
        sites.check(config, change)
        for path, edit in _edits_of(config, change, sources or {}):
            found.setdefault(path, []).append(edit)
    return {path: _in_turn(several) for path, several in found.items()}


def source_points(config: Config, changes: Iterable[Intervention]) -> dict[str, list[str]]:
    """Points that each run to patch from must have recorded."""
    needed: dict[str, list[str]] = {}
    for change in changes:
        if change.do == "patch":
            sites.check(config, change)
            for layer in sites.layers(config, change):
                needed.setdefault(change.run, []).extend(sites.paths(config, change, layer))
    return needed


def _edits_of(
    config: Config, change: Intervention, sources: Mapping[str, Trace]
) -> Iterator[tuple[str, Edit]]:
    source = None
    if change.do == "patch":
        if change.run not in sources:
            raise ValueError(f"{change}: that run is not here")
        source = sources[change.run].values
    for layer in sites.layers(config, change):
        paths = sites.paths(config, change, layer)
        if missing := [path for path in paths if source is not None and path not in source]:
            raise ValueError(f"{change}: that run has not recorded {missing[0]}")
        if change.what == "expert":
            yield from _expert(change, *paths, source)
        else:
            yield paths[0], _edit(config, change, layer, None if source is None else source[paths[0]])


def _edit(config: Config, change: Intervention, layer: int | None, source: Tensor | None) -> Edit:
    slot = sites.slot(config, change, layer)

    def edit(out: Tensor) -> Tensor:
        out = out.clone(memory_format=torch.contiguous_format)
        part = slot(out)
        at = _positions(change, part.shape[1], None if source is None else source.shape[1])
        new = _new(change, part, None if source is None else slot(source.contiguous()).to(part), at)
        part[:, at] = new[:, at]
        return _weights(out) if change.what == "mix" else out

    return edit


def _new(change: Intervention, part: Tensor, source: Tensor | None, at: Tensor) -> Tensor:
    """What replaces `part` [B, T, ...]; only the positions `at` are looked at."""
    match change.do:
        case "zero":
            return torch.zeros_like(part)
        case "mean":
            return part.mean(1, keepdim=True).expand_as(part)
        case "noise":
            return part + _noise(change, part)
        case "patch":
            new = part.clone()
            new[:, at] = source[:, at]
            return new
        case "force":
            return torch.tensor(change.experts, device=part.device).expand_as(part)
    low, high = torch.tensor([change.low, change.high], dtype=torch.float64).log().tolist()
    return part.clamp(low, high)  # decay is the logarithm of the share that is kept


def _noise(change: Intervention, part: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(change.seed)
    noise = torch.randn(part.shape, generator=generator, dtype=torch.float32).to(part)
    return change.amount * part.square().mean().sqrt() * noise


def _weights(out: Tensor) -> Tensor:
    """Weights that sum to 1 again; a negative one from noise counts as 0."""
    out = out.clamp_min(0)
    return out / out.sum(-1, keepdim=True).clamp_min(torch.finfo(out.dtype).tiny)


def _expert(change: Intervention, chosen: str, outputs: str, source) -> Iterator[tuple[str, Edit]]:
    """Two edits: the first only looks at the choice, the second replaces the rows of the expert."""
    seen = []

    def look(index: Tensor) -> Tensor:
        seen[:] = [index]
        return index

    def edit(out: Tensor) -> Tensor:  # [B, T, top_k, latent]
        at = _positions(change, out.shape[1], None if source is None else source[outputs].shape[1])
        mine = torch.zeros_like(seen[0], dtype=torch.bool)
        mine[:, at] = seen[0][:, at] == change.index
        out = out.clone()
        if source is not None:
            return _patched(change, out, mine, source[chosen], source[outputs])
        everyone = seen[0] == change.index
        if everyone.any():
            rows = out[everyone][None]  # [1, tokens that chose it, latent]
            every = torch.arange(rows.shape[1], device=out.device)
            new = torch.zeros_like(out)
            new[everyone] = _new(change, rows, None, every)[0]
            out[mine] = new[mine]
        return out

    yield chosen, look
    yield outputs, edit


def _patched(change: Intervention, out: Tensor, mine: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """Where both runs chose the expert, the output that it gave in the other run."""
    tokens = min(out.shape[1], values.shape[1])
    theirs = index[:, :tokens] == change.index
    both = mine[:, :tokens].any(-1) & theirs.any(-1)  # [B, tokens]
    mine = mine.clone()
    mine[:, :tokens] &= both[..., None]
    mine[:, tokens:] = False
    out[mine] = values[:, :tokens][theirs & both[..., None]].to(out)
    return out


def _positions(change: Intervention, tokens: int, source: int | None) -> Tensor:
    """Positions to change, in ascending order; of those that a patch has too."""
    if change.tokens and (max(change.tokens) >= tokens or min(change.tokens) < 0):
        raise ValueError(f"{change}: the run has tokens 0 to {tokens - 1}")
    limit = tokens if source is None else min(tokens, source)
    chosen = sorted(set(change.tokens)) if change.tokens else range(tokens)
    return torch.tensor([t for t in chosen if t < limit], dtype=torch.long)


def _in_turn(several: list[Edit]) -> Edit:
    def edit(out: Tensor) -> Tensor:
        for one in several:
            out = one(out)
        return out

    return edit

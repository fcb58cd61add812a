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
    config: Config, interventions: Iterable[Intervention], sources: Mapping[str, Trace] | None = None
) -> dict[str, Edit]:
    """Edits for `trace` and `observe`; several at one hook point apply in sequence. For one pass only.

    `sources`: traces to patch from, by run, with the hook points that `source_points` names. ValueError for
    an intervention that does not fit the model.
    """
    by_path: dict[str, list[Edit]] = {}
    for intervention in interventions:
        sites.check(config, intervention)
        for path, edit in _edits_of(config, intervention, sources or {}):
            by_path.setdefault(path, []).append(edit)
    return {path: _in_sequence(several) for path, several in by_path.items()}


def source_points(config: Config, interventions: Iterable[Intervention]) -> dict[str, list[str]]:
    """Hook points that each run to patch from must have recorded."""
    needed: dict[str, list[str]] = {}
    for intervention in interventions:
        if intervention.do == "patch":
            sites.check(config, intervention)
            for layer in sites.layers(config, intervention):
                needed.setdefault(intervention.run, []).extend(sites.paths(config, intervention, layer))
    return needed


def _edits_of(
    config: Config, intervention: Intervention, sources: Mapping[str, Trace]
) -> Iterator[tuple[str, Edit]]:
    source = None
    if intervention.do == "patch":
        if intervention.run not in sources:
            raise ValueError(f"{intervention}: that run is not here")
        source = sources[intervention.run].values
    for layer in sites.layers(config, intervention):
        paths = sites.paths(config, intervention, layer)
        if missing := [path for path in paths if source is not None and path not in source]:
            raise ValueError(f"{intervention}: that run has not recorded {missing[0]}")
        if intervention.what == "expert":
            yield from _expert(intervention, *paths, source)
        else:
            yield paths[0], _edit(config, intervention, layer, None if source is None else source[paths[0]])


def _edit(config: Config, intervention: Intervention, layer: int | None, source: Tensor | None) -> Edit:
    view = sites.site_view(config, intervention, layer)

    def edit(out: Tensor) -> Tensor:
        out = out.clone(memory_format=torch.contiguous_format)
        part = view(out)
        positions = _positions(intervention, part.shape[1], None if source is None else source.shape[1])
        new = _new(
            intervention, part, None if source is None else view(source.contiguous()).to(part), positions
        )
        part[:, positions] = new[:, positions]
        return _weights(out) if intervention.what == "mix" else out

    return edit


def _new(intervention: Intervention, part: Tensor, source: Tensor | None, positions: Tensor) -> Tensor:
    """What replaces `part` [B, T, ...]; only its `positions` are used."""
    match intervention.do:
        case "zero":
            return torch.zeros_like(part)
        case "mean":
            return part.mean(1, keepdim=True).expand_as(part)
        case "noise":
            return part + _noise(intervention, part)
        case "patch":
            new = part.clone()
            new[:, positions] = source[:, positions]
            return new
        case "force":
            return torch.tensor(intervention.experts, device=part.device).expand_as(part)
    low, high = torch.tensor([intervention.low, intervention.high], dtype=torch.float64).log().tolist()
    return part.clamp(low, high)  # decay is the logarithm of the share that is retained


def _noise(intervention: Intervention, part: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(intervention.seed)
    noise = torch.randn(part.shape, generator=generator, dtype=torch.float32).to(part)
    return intervention.amount * part.square().mean().sqrt() * noise


def _weights(out: Tensor) -> Tensor:
    """Weights that sum to 1 again; a negative one from noise counts as 0."""
    out = out.clamp_min(0)
    return out / out.sum(-1, keepdim=True).clamp_min(torch.finfo(out.dtype).tiny)


def _expert(intervention: Intervention, chosen: str, outputs: str, source) -> Iterator[tuple[str, Edit]]:
    """Two edits: the first only records the choice, the second replaces the rows of the expert."""
    recorded = []

    def record_choice(index: Tensor) -> Tensor:
        recorded[:] = [index]
        return index

    def edit(out: Tensor) -> Tensor:  # [B, T, top_k, latent]
        positions = _positions(
            intervention, out.shape[1], None if source is None else source[outputs].shape[1]
        )
        own = torch.zeros_like(recorded[0], dtype=torch.bool)
        own[:, positions] = recorded[0][:, positions] == intervention.index
        out = out.clone()
        if source is not None:
            return _patched(intervention, out, own, source[chosen], source[outputs])
        everyone = recorded[0] == intervention.index
        if everyone.any():
            rows = out[everyone][None]  # [1, tokens that chose it, latent]
            every = torch.arange(rows.shape[1], device=out.device)
            new = torch.zeros_like(out)
            new[everyone] = _new(intervention, rows, None, every)[0]
            out[own] = new[own]
        return out

    yield chosen, record_choice
    yield outputs, edit


def _patched(intervention: Intervention, out: Tensor, own: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """Where both runs chose the expert, the output that it gave in the other run."""
    tokens = min(out.shape[1], values.shape[1])
    theirs = index[:, :tokens] == intervention.index
    both = own[:, :tokens].any(-1) & theirs.any(-1)  # [B, tokens]
    own = own.clone()
    own[:, :tokens] &= both[..., None]
    own[:, tokens:] = False
    out[own] = values[:, :tokens][theirs & both[..., None]].to(out)
    return out


def _positions(intervention: Intervention, tokens: int, source: int | None) -> Tensor:
    """Positions that are replaced, in ascending order; for a patch only those that its source has."""
    if intervention.tokens and (max(intervention.tokens) >= tokens or min(intervention.tokens) < 0):
        raise ValueError(f"{intervention}: the run has tokens 0 to {tokens - 1}")
    limit = tokens if source is None else min(tokens, source)
    chosen = sorted(set(intervention.tokens)) if intervention.tokens else range(tokens)
    return torch.tensor([t for t in chosen if t < limit], dtype=torch.long)


def _in_sequence(several: list[Edit]) -> Edit:
    def edit(out: Tensor) -> Tensor:
        for one in several:
            out = one(out)
        return out

    return edit

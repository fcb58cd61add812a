"""What a run says about one block in one layer, as words, numbers and bars for the Live tab."""

from dataclasses import dataclass, field

import numpy as np

from k3scope.app.runs.run_result import RunResult
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import layer_of, points
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.block_spec import Block
from k3scope.model.config import Config
from k3scope.model.measure.statistics import Statistics

ROUTED = ("latent_moe", "moe_router", "moe_experts", "moe_combine")
SUMS = ("kimi_k3", "decoder_layer", "attn_sum", "ffn_sum", "block_store")
MIXED = ("attn_mix", "ffn_mix", "output_mix")
MEMORY = ("kda", "kda_decay", "kda_delta_rule")
HEADS = ("lm_head",)


@dataclass(frozen=True)
class Chart:
    """Bars: upright `columns` when they are many and alike, `rows` when each has a name."""

    kind: str
    title: str
    text: str
    labels: list[str]
    values: list[float]
    tips: list[str]
    chosen: int | None = None


@dataclass(frozen=True)
class Place:
    """A block in the model that ran: the layer shown, the layers there are, and its points there."""

    block: Block
    layer: int | None
    layers: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)


def place(run: RunResult, select: str, chosen: int | None, like: tuple[Config, int] | None) -> Place:
    """Where to look: in the layer `chosen`, else in one of the kind that layer `like` of a model has."""
    facts = Facts.of(run.spec.model)
    block = block_spec.blocks()[select or "kimi_k3"]
    by_layer: dict[int | None, list[str]] = {}
    for path in facts.instances(block):
        by_layer.setdefault(layer_of(path), []).append(path)
    layers = sorted(layer for layer in by_layer if layer is not None)
    layer = next(iter(by_layer)) if not layers else _layer(run.config, layers, chosen, like)
    paths = by_layer[layer]
    found = [p for path in paths for p in points(facts.model, block, path)]
    return Place(block, layer, layers, paths, [p for p in dict.fromkeys(found) if p in run.readings.points])


def _layer(c: Config, layers: list[int], chosen: int | None, like: tuple[Config, int] | None) -> int:
    if chosen in layers:
        return chosen
    same = [i for i in layers if like and kind_of(c, i) == kind_of(*like)] or layers
    return like[1] if like and like[1] in same else same[0]


def kind_of(c: Config, layer: int) -> str:
    """Attention and FFN of a layer, in words."""
    return f"{c.kinds[layer].upper()}, {'dense FFN' if layer < c.dense_layers else 'MoE'}"


def statistics(run: RunResult, at: Place) -> list[dict]:
    """One table per point."""
    return [{"name": _short(point, at), **_numbers(run.readings.points[point])} for point in at.points]


def _short(point: str, at: Place) -> str:
    path = at.paths[0]
    if len(at.paths) > 1 or point in at.paths:
        return point.rpartition(".")[2]
    return point.removeprefix(path + ".") if path else point


def _numbers(s: Statistics) -> dict:
    cells = {"mean": s.mean, "std": s.std, "RMS": s.rms, "min": s.min, "max": s.max}
    rows = [[name, f"{value:.4g}"] for name, value in cells.items()]
    return {
        "shape": "[" + ", ".join(f"{n:,}" for n in s.shape) + "]",
        "cells": [*rows, ["zeros", f"{100 * s.zeros:.3g}%"]],
        "bad": not s.finite,
    }


def charts(run: RunResult, at: Place, token: int | None) -> list[Chart]:
    """The pictures that belong to a block."""
    token = token if token is not None and token < len(run.tokens) else None
    match at.block.id:
        case name if name in ROUTED:
            return _routing(run, at.layer, token)
        case name if name in SUMS:
            return [_sums(run, at.layer, token)]
        case name if name in MIXED:
            return [_mix(run, at)] if _mix_of(run, at) else []
        case name if name in MEMORY:
            return [_half_lives(run, at.layer)]
        case name if name in HEADS:
            return [_next(run)]
    return []


def _routing(run: RunResult, layer: int, token: int | None) -> list[Chart]:
    c, found = run.config, run.readings.routing[layer]
    counts, load = found.counts(c.experts), found.load(c.experts)
    tokens = len(run.tokens)
    text = (
        f"{tokens:,} × {c.top_k} = {tokens * c.top_k:,} choices. Distance between the last chosen and the "
        f"first refused score: median {np.median(found.margin):.3g}, smallest {found.margin.min():.3g}."
    )
    tips = [
        f"expert {i}: {n:,} tokens, weights sum to {w:.3g}"
        for i, (n, w) in enumerate(zip(counts, load, strict=True))
    ]
    names = [str(i) for i in range(c.experts)]
    drawn = [Chart("columns", "Tokens per expert", text, names, counts.tolist(), tips)]
    if token is not None:
        drawn.append(_choice(run, layer, token))
    return drawn


def _choice(run: RunResult, layer: int, token: int) -> Chart:
    found = run.readings.routing[layer]
    index, weight = found.index[token].tolist(), found.weight[token].tolist()
    return Chart(
        "rows",
        f"Experts of token {token}",
        f"Weights of the chosen experts for {run.tokens[token].text!r}.",
        [f"expert {i}" for i in index],
        weight,
        [f"{w:.4f}" for w in weight],
    )


def _sums(run: RunResult, layer: int | None, token: int | None) -> Chart:
    found, c = run.readings.residual, run.config
    values = found.rms.mean(-1) if token is None else found.rms[:, token]
    who = "mean over the tokens" if token is None else f"token {token}, {run.tokens[token].text!r}"
    tips = [f"layer {i} ({kind_of(c, i)}): {v:.4g}" for i, v in zip(found.layers, values, strict=True)]
    return Chart(
        "columns",
        "Running sum after each layer",
        f"RMS, {who}. It restarts every {c.block} layers.",
        [str(i) for i in found.layers],
        [float(v) for v in values],
        tips,
        layer,
    )


def _mix_of(run: RunResult, at: Place):
    return next((m for m in run.readings.mixes if m.point.rpartition(".")[0] in at.paths), None)


def _mix(run: RunResult, at: Place) -> Chart:
    mean = _mix_of(run, at).mean.tolist()
    return Chart(
        "rows",
        "Where it reads",
        "Mean weight over the tokens; the weights of a token sum to 1.",
        [*(f"block sum {i}" for i in range(len(mean) - 1)), "running sum"],
        mean,
        [f"{w:.4f}" for w in mean],
    )


def _half_lives(run: RunResult, layer: int) -> Chart:
    tokens = run.readings.half_lives[layer].tolist()
    return Chart(
        "columns",
        "Half-life of the memory, by head",
        "Tokens until half of what a key channel held is forgotten: median over tokens and channels.",
        [str(i) for i in range(len(tokens))],
        tokens,
        [f"head {i}: {n:.3g} tokens" for i, n in enumerate(tokens)],
    )


def _next(run: RunResult) -> Chart:
    return Chart(
        "rows",
        "Likeliest next tokens",
        "Softmax of the logits at the last position.",
        [piece.text for piece, _ in run.next],
        [p for _, p in run.next],
        [f"{100 * p:.2f}%" for _, p in run.next],
    )

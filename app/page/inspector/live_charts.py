"""What a run measured of one block in one layer, as text, numbers and bars for the Live tab."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from k3scope.app.runs.run_result import RunResult
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import layer_of, points
from k3scope.diagrams.spec.block_spec import Block
from k3scope.model.config import Config
from k3scope.model.measure.depth import MixWeights
from k3scope.model.measure.not_finite import NOT_A_NUMBER, number
from k3scope.model.measure.routing import Routing
from k3scope.model.measure.statistics import Statistics

ROUTED = ("latent_moe", "moe_router", "moe_experts", "moe_combine")
SUMS = ("kimi_k3", "decoder_layer", "attn_sum", "ffn_sum", "block_store")
MIXED = ("attn_mix", "ffn_mix", "output_mix")
MEMORY = ("kda", "kda_decay", "kda_delta_rule")
HEADS = ("lm_head",)


@dataclass(frozen=True)
class Chart:
    """Bars: upright `columns` when they are many and alike, `rows` when each has a name.

    None stands for what is not finite: it has no bar, and its tip says so.
    """

    kind: str
    title: str
    text: str
    labels: list[str]
    values: list[float | None]
    tips: list[str]
    chosen: int | None = None


@dataclass(frozen=True)
class BlockReading:
    """A block in the model that ran: its layers, the one shown, its instances and hook points there."""

    block: Block
    layer: int | None
    layers: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    points: list[str] = field(default_factory=list)


def locate(run: RunResult, select: str, chosen: int | None, like: tuple[Config, int] | None) -> BlockReading:
    """A block of a run: in the layer `chosen`, else in one of the kind that layer `like` of a model has."""
    facts = Facts.of(run.spec.model)
    block = facts.blocks.get(select or "kimi_k3")
    if block is None:
        raise ValueError(f"{run.spec.model} has no block {select!r}")
    by_layer: dict[int | None, list[str]] = {}
    for path in facts.instances(block):
        by_layer.setdefault(layer_of(path), []).append(path)
    layers = sorted(layer for layer in by_layer if layer is not None)
    layer = next(iter(by_layer)) if not layers else _layer(run.config, layers, chosen, like)
    paths = by_layer[layer]
    hook_points = dict.fromkeys(p for path in paths for p in points(facts.model, block, path))
    return BlockReading(block, layer, layers, paths, [p for p in hook_points if p in run.readings.points])


def _layer(c: Config, layers: list[int], chosen: int | None, like: tuple[Config, int] | None) -> int:
    if chosen in layers:
        return chosen
    alike = [i for i in layers if like and kind_of(c, i) == kind_of(*like)] or layers
    return like[1] if like and like[1] in alike else alike[0]


def kind_of(c: Config, layer: int) -> str:
    """Attention and FFN of a layer: KDA, MoE."""
    return f"{c.kinds[layer].upper()}, {'dense FFN' if layer < c.dense_layers else 'MoE'}"


def statistics(run: RunResult, reading: BlockReading) -> list[dict]:
    """One table per hook point: name, shape, cells, not_finite."""
    return [
        {"name": _name(point, reading), **_numbers(run.readings.points[point])} for point in reading.points
    ]


def _name(point: str, reading: BlockReading) -> str:
    """The point without the path of its block: of several instances the last name tells them apart."""
    path = reading.paths[0]
    if len(reading.paths) > 1 or point in reading.paths:
        return point.rpartition(".")[2]
    return point.removeprefix(path + ".") if path else point


def _numbers(s: Statistics) -> dict:
    cells = {"mean": s.mean, "std": s.std, "RMS": s.rms, "min": s.min, "max": s.max}
    rows = [[name, number(value, ".4g")] for name, value in cells.items()]
    return {
        "shape": "[" + ", ".join(f"{n:,}" for n in s.shape) + "]",
        "cells": [*rows, ["zeros", f"{100 * s.zeros:.3g}%" if s.finite else NOT_A_NUMBER]],
        "not_finite": not s.finite,
    }


def charts(run: RunResult, reading: BlockReading, token: int | None) -> list[Chart]:
    """The pictures that belong to a block."""
    token = token if token is not None and token < len(run.tokens) else None
    match reading.block.id:
        case name if name in ROUTED:
            return _routing(run, reading.layer, token)
        case name if name in SUMS:
            return [_sums(run, reading.layer, token)]
        case name if name in MIXED:
            return [_mix(run, reading)] if _mix_of(run, reading) else []
        case name if name in MEMORY:
            return [_half_lives(run, reading.layer)]
        case name if name in HEADS:
            return [_next(run)]
    return []


def _routing(run: RunResult, layer: int, token: int | None) -> list[Chart]:
    c, routing = run.config, run.readings.routing[layer]
    counts, load = routing.counts(c.experts), routing.load(c.experts)
    names, chose = [str(i) for i in range(c.experts)], ~routing.bad
    if chose.any():
        values = counts.tolist()
        tips = [
            f"expert {i}: {n:,} tokens, weights sum to {w:.3g}"
            for i, (n, w) in enumerate(zip(counts, load, strict=True))
        ]
    else:
        values, tips = [None] * c.experts, [f"expert {i}: {NOT_A_NUMBER}" for i in names]
    drawn = [Chart("columns", "Tokens per expert", _choices(routing, c.top_k), names, values, tips)]
    if token is not None:
        drawn.append(_choice(run, layer, token))
    return drawn


def _choices(routing: Routing, top_k: int) -> str:
    """How many choices there are and how close they were, in sentences."""
    chose, bad = int((~routing.bad).sum()), int(routing.bad.sum())
    if not chose:
        return "The scores are not finite: no expert is chosen rather than another."
    margin = routing.margin[~routing.bad]
    text = (
        f"{chose:,} × {top_k} = {chose * top_k:,} choices. Distance between the last chosen and the "
        f"first refused score: median {np.median(margin):.3g}, smallest {margin.min():.3g}."
    )
    return text + (f" {bad:,} more tokens have scores that are not finite, and choose none." if bad else "")


def _choice(run: RunResult, layer: int, token: int) -> Chart:
    routing = run.readings.routing[layer]
    if routing.bad[token]:
        why = f"The scores of {run.tokens[token].text!r} are not finite: no expert is chosen."
        return Chart("rows", f"Experts of token {token}", why, [], [], [])
    index, weight = routing.index[token].tolist(), routing.weight[token].tolist()
    return Chart(
        "rows",
        f"Experts of token {token}",
        f"Weights of the chosen experts for {run.tokens[token].text!r}.",
        [f"expert {i}" for i in index],
        weight,
        [f"{w:.4f}" for w in weight],
    )


def _sums(run: RunResult, layer: int | None, token: int | None) -> Chart:
    residual, c = run.readings.residual, run.config
    values = residual.rms.mean(-1) if token is None else residual.rms[:, token]
    whose = "mean over the tokens" if token is None else f"token {token}, {run.tokens[token].text!r}"
    tips = [
        f"layer {i} ({kind_of(c, i)}): {number(v, '.4g')}"
        for i, v in zip(residual.layers, values, strict=True)
    ]
    restarts = f" It restarts every {c.block} layers." if c.block else ""
    return Chart(
        "columns",
        f"{'Running' if c.block else 'Residual'} sum after each layer",
        f"RMS, {whose}.{restarts}",
        [str(i) for i in residual.layers],
        _bars(values),
        tips,
        layer,
    )


def _mix_of(run: RunResult, reading: BlockReading) -> MixWeights | None:
    return next((m for m in run.readings.mixes if m.point.rpartition(".")[0] in reading.paths), None)


def _mix(run: RunResult, reading: BlockReading) -> Chart:
    mean = _mix_of(run, reading).mean.tolist()
    return Chart(
        "rows",
        "Where it reads",
        "Mean weight over the tokens; the weights of a token sum to 1.",
        [*(f"block sum {i}" for i in range(len(mean) - 1)), "running sum"],
        _bars(mean),
        [number(w, ".4f") for w in mean],
    )


def _half_lives(run: RunResult, layer: int) -> Chart:
    half_lives = run.readings.half_lives[layer].tolist()
    return Chart(
        "columns",
        "Half-life of the memory, by head",
        "Tokens until half of what a key channel held is forgotten: median over tokens and channels.",
        [str(i) for i in range(len(half_lives))],
        _bars(half_lives),
        [f"head {i}: {number(n, '.3g', 'tokens')}" for i, n in enumerate(half_lives)],
    )


def _bars(values: Iterable[float]) -> list[float | None]:
    """Values as bars, None for what is not finite."""
    return [float(v) if math.isfinite(v) else None for v in values]


def _next(run: RunResult) -> Chart:
    why = "The logits at the last position are not finite: no token is likelier than another."
    return Chart(
        "rows",
        "Likeliest next tokens",
        "Softmax of the logits at the last position." if run.next else why,
        [token.text for token, _ in run.next],
        [p for _, p in run.next],
        [f"{100 * p:.2f}%" for _, p in run.next],
    )

"""The texts of the Lab: numbers of a view, tokens one by one, and how two runs differ."""

import math
from collections.abc import Callable

import numpy as np

from k3scope.app.lab.lab_views import Selection
from k3scope.app.lab.picture_difference import Pairs
from k3scope.app.model_cards import badge
from k3scope.app.page.kit.token_chip import chip
from k3scope.app.runs.run_result import RunResult
from k3scope.diagrams.cost.breakdown import plain
from k3scope.model.measure import logit_lens
from k3scope.model.measure.run_difference import difference
from k3scope.model.runs.run import Run
from k3scope.model.tokenizers.tokenizer import Token

FORMS = 128  # first tokens over which all ways to compute a KDA layer are compared


def facts(run: Run, view: str, selection: Selection) -> list[tuple[str, str]]:
    """Numbers that belong to a view and are no picture: name and value."""
    match view:
        case "routing" if selection.layer is not None:
            return _routing(run, selection.layer)
        case "memory" if selection.layer is not None:
            return _memory(run, selection)
        case "attention" if selection.layer is not None:
            share = run.attention.shared_key_share(selection.layer)
            listed = ", ".join(f"{value:.0%}" for value in share)
            return [("spread of the scores from the shared key, by head", listed)]
        case "depth":
            token = selection.token
            return [
                (
                    f"sum restarts at layer {r.layer}",
                    f"{r.stored[token]:.3g} stored, goes on with {r.restarted[token]:.3g}",
                )
                for r in run.depth.resets
            ]
    return []


def _routing(run: Run, layer: int) -> list[tuple[str, str]]:
    balance, c, tokens = run.routing.balance(layer), run.config, run.length
    dead = ", ".join(map(str, balance.dead)) if 0 < len(balance.dead) <= 12 else f"{len(balance.dead)}"
    effect = int(run.routing.bias_effect(layer).changed.sum())
    return [
        ("choices", f"{tokens:,} tokens × {c.top_k} = {int(balance.counts.sum()):,}"),
        ("tokens each, if all were used alike", f"{balance.target:.3g}"),
        ("most used", f"{1 + balance.violation:.2f} times that"),
        ("entropy of the use", f"{balance.entropy:.3g} of {math.log(c.experts):.3g} nats"),
        ("experts without a token", dead if len(balance.dead) else "none"),
        ("choices that the bias changed", f"{effect:,}"),
    ]


def _memory(run: Run, selection: Selection) -> list[tuple[str, str]]:
    write = run.kda.write(selection.layer, selection.head, selection.token)
    numbers = [
        ("head, layer", f"{selection.head}, {selection.layer}"),
        ("half-life", f"{plain(run.kda.half_life(selection.layer)[selection.head])} tokens"),
        (f"write strength at token {selection.token}", f"{write.strength:.3g}"),
    ]
    steps = run.kda.steps(selection.layer)
    erased, written, change, cosine = (
        f"{getattr(steps, name)[selection.token, selection.head]:.3g}"
        for name in ("erased", "written", "change", "cosine")
    )
    numbers.append(("it erased", f"{erased}, wrote {written}, a change of {change}"))
    numbers.append(("old prediction against new value", f"cosine {cosine}"))
    errors = run.kda.forms(selection.layer, FORMS)
    part = "" if run.length <= FORMS else f", first {FORMS} tokens"
    numbers.append(
        (f"recurrent = chunked = step by step{part}, largest error", f"{max(errors.values()):.1e}")
    )
    return numbers


def tokens(result: RunResult) -> dict:
    """Every token as a row: text, kind, id, probability, loss, rank; None where nothing predicted it."""
    measured = result.readings.tokens
    rows = []
    for i, token in enumerate(result.tokens):
        token_id, text, kind = chip(token)
        numbers = [None] * 3
        if math.isfinite(measured.prob[i]):
            prob, loss = (round(float(value[i]), 6) for value in (measured.prob, measured.loss))
            numbers = [prob, loss, int(measured.rank[i])]
        rows.append([text, kind, token_id, *numbers])
    mean, uniform = measured.mean_loss, math.log(result.config.vocab)
    loss_text = f"mean loss {mean:.3f} nats; guessing would be {uniform:.3f}" if math.isfinite(mean) else ""
    return {
        "rows": rows,
        "vocab": result.config.vocab,
        "summary": f"{result.spec.model} {loss_text}",
        "badge": badge(result.spec.model),
        "first_generated": result.first_generated,
    }


def expected(run: Run, token: int, token_of: Callable[[int], Token], count: int = 8) -> dict:
    """The likeliest tokens after one as rows: id, text, kind, probability, whether it came next."""
    ids, probs = logit_lens.candidates(run.logits[:1, token : token + 1], count)
    actual = int(run.ids[0, token + 1]) if token + 1 < run.length else None
    rows = [
        [*chip(token_of(int(i))), round(float(p), 6), int(i) == actual]
        for i, p in zip(ids[0], probs[0], strict=True)
    ]
    return {"token": token, "rows": rows}


def report(run: Run, baseline: Run, tokens: tuple[Token, ...]) -> list[tuple[str, str]]:
    """How a run, whose `tokens` these are, differs from another. ValueError when they share no token."""
    pairs = Pairs.of(run, baseline)
    between = difference(baseline, run, pairs.positions[:, ::-1])
    changed, loss = int(between.top_changed.sum()), between.mean_loss
    most = int(np.nanargmax(between.kl)) if np.isfinite(between.kl).any() else 0
    position = int(between.pairs[most, 1])
    common_experts = float(np.mean(between.routes)) if between.routes.size else None
    shifts = zip(between.layers, between.shift, strict=True)
    first = next((layer for layer, row in shifts if row.max() > 1e-6), None)
    numbers = [
        ("tokens in common", f"{len(between.pairs):,} of {run.length:,}"),
        ("another likeliest next token", f"{changed:,}"),
        ("KL of the next token, mean", f"{float(np.mean(between.kl)):.3g} nats"),
        ("largest", f"{between.kl[most]:.3g} nats at token {position} {chip(tokens[position])[1]!r}"),
        ("loss", "not known" if math.isnan(loss) else f"{loss:+.3g} nats"),
        ("first layer that differs", "none" if first is None else str(first)),
    ]
    return (
        numbers
        if common_experts is None
        else [*numbers, ("experts that both chose", f"{common_experts:.0%}")]
    )

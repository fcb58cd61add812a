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
from k3scope.model.measure.not_finite import NOT_A_NUMBER, number
from k3scope.model.measure.run_difference import RunDifference, difference
from k3scope.model.runs.run import Run
from k3scope.model.tokenizers.tokenizer import Token

NO_CANDIDATES = "The logits here are not finite: no token is likelier than another."
FORMS = 128  # first tokens over which all ways to compute a KDA layer are compared


def facts(run: Run, view: str, selection: Selection) -> list[tuple[str, str]]:
    """Numbers that belong to a view and are no picture: name and value."""
    bad = run.first_bad
    return [*([("first NaN or infinity", bad)] if bad else []), *_facts(run, view, selection)]


def _facts(run: Run, view: str, selection: Selection) -> list[tuple[str, str]]:
    match view:
        case "routing" if selection.layer is not None:
            return _routing(run, selection.layer)
        case "memory" if selection.layer is not None:
            return _memory(run, selection)
        case "attention" if selection.layer is not None:
            share = run.attention.shared_key_share(selection.layer)
            listed = (
                ", ".join(number(value, ".0%") for value in share) if run.length > 1 else "nothing to choose"
            )
            return [("spread of the scores from the shared key, by head", listed)]
        case "depth":
            token = selection.token
            return [
                (f"sum restarts at layer {r.layer}", _restart(r.stored[token], r.restarted[token]))
                for r in run.depth.resets
            ]
    return []


def _restart(stored: float, restarted: float) -> str:
    return f"{number(stored, '.3g')} stored, goes on with {number(restarted, '.3g')}"


def _routing(run: Run, layer: int) -> list[tuple[str, str]]:
    balance, c, bad = run.routing.balance(layer), run.config, int(run.routing.of(layer).bad.sum())
    lost = [("tokens without a choice, as their scores are not finite", f"{bad:,} of {run.length:,}")]
    if bad == run.length:
        return lost
    dead = ", ".join(map(str, balance.dead)) if 0 < len(balance.dead) <= 12 else f"{len(balance.dead)}"
    effect = int(np.nansum(run.routing.bias_effect(layer).changed))
    return [
        *(lost if bad else []),
        ("choices", f"{run.length - bad:,} tokens × {c.top_k} = {int(balance.counts.sum()):,}"),
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
        ("half-life", _tokens(run.kda.half_life(selection.layer)[selection.head])),
        (f"write strength at token {selection.token}", number(write.strength, ".3g")),
    ]
    steps = run.kda.steps(selection.layer)
    erased, written, change, cosine = (
        number(getattr(steps, name)[selection.token, selection.head], ".3g")
        for name in ("erased", "written", "change", "cosine")
    )
    numbers.append(("it erased", f"{erased}, wrote {written}, a change of {change}"))
    numbers.append(("old prediction against new value", f"cosine {cosine}"))
    largest = float(np.max(list(run.kda.forms(selection.layer, FORMS).values())))  # NaN if one is
    part = "" if run.length <= FORMS else f", first {FORMS} tokens"
    numbers.append((f"recurrent = chunked = step by step{part}, largest error", number(largest, ".1e")))
    return numbers


def _tokens(half_life: float) -> str:
    return f"{plain(half_life)} tokens" if math.isfinite(half_life) else number(half_life)


def tokens(result: RunResult) -> dict:
    """Every token as a row: text, kind, id, probability, loss, rank.

    These are None where nothing predicted it; the rank is -1 where what did is not finite.
    """
    measured = result.readings.tokens
    rows = []
    for i, token in enumerate(result.tokens):
        token_id, text, kind = chip(token)
        numbers = [None, None, -1 if i else None]
        if measured.rank[i] >= 0:
            prob, loss = (round(float(value[i]), 6) for value in (measured.prob, measured.loss))
            numbers = [prob, loss, int(measured.rank[i])]
        rows.append([text, kind, token_id, *numbers])
    mean, uniform = measured.mean_loss, math.log(result.config.vocab)
    loss_text = f"mean loss {number(mean, '.3f', 'nats')}; guessing would be {uniform:.3f}"
    loss_text = loss_text if len(rows) > 1 else ""
    return {
        "rows": rows,
        "vocab": result.config.vocab,
        "summary": f"{result.spec.model} {loss_text}",
        "badge": badge(result.spec.model),
        "first_generated": result.first_generated,
    }


def expected(run: Run, token: int, token_of: Callable[[int], Token], count: int = 8) -> dict:
    """The likeliest tokens after one as rows: id, text, kind, probability, whether it came next.

    `problem`: why there are none.
    """
    ids, probs = logit_lens.top_next(run.logits[:1, token : token + 1], count)
    actual = int(run.ids[0, token + 1]) if token + 1 < run.length else None
    rows = [
        [*chip(token_of(int(i))), round(float(p), 6), int(i) == actual]
        for i, p in zip(ids, probs, strict=True)
    ]
    return {"token": token, "rows": rows, "problem": "" if rows else NO_CANDIDATES}


def report(run: Run, baseline: Run, tokens: tuple[Token, ...]) -> list[tuple[str, str]]:
    """How a run, whose `tokens` these are, differs from another. ValueError when they share no token."""
    pairs = Pairs.of(run, baseline)
    between = difference(baseline, run, pairs.positions[:, ::-1])
    loss, predicted = between.mean_loss, (between.pairs > 0).all(-1).any()
    known = np.isfinite(between.kl)
    missing = "" if known.all() else f" of the {int(known.sum()):,} whose logits are finite"
    numbers = [
        ("tokens in common", f"{len(between.pairs):,} of {run.length:,}"),
        ("another likeliest next token", f"{int(between.top_changed.sum()):,}{missing}"),
        ("KL of the next token, mean", number(np.mean(between.kl), ".3g", "nats")),
        ("largest", _largest_kl(between, tokens) if known.any() else NOT_A_NUMBER),
        ("loss", number(loss, "+.3g", "nats") if predicted else "not known"),
        ("first layer that differs", _first_layer(between)),
    ]
    if between.routes.size:
        numbers.append(("experts that both chose", number(np.mean(between.routes), ".0%")))
    return numbers


def _largest_kl(between: RunDifference, tokens: tuple[Token, ...]) -> str:
    most = int(np.nanargmax(between.kl))
    position = int(between.pairs[most, 1])
    return f"{number(between.kl[most], '.3g', 'nats')} at token {position} {chip(tokens[position])[1]!r}"


def _first_layer(between: RunDifference) -> str:
    """The first layer whose sum moved; one that is not finite has no size to be equal."""
    for layer, row in zip(between.layers, between.shift, strict=True):
        if np.isnan(row).any():
            return f"{layer}, where it is not finite"
        if row.max() > 1e-6:
            return str(layer)
    return "none"

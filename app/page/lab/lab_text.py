"""What the Lab says in words: numbers of a view, tokens one by one, and how two runs differ."""

import math

import numpy as np

from k3scope.app.lab.lab_views import At
from k3scope.app.lab.picture_difference import Pairs
from k3scope.app.model_cards import badge
from k3scope.app.page.kit.token_chip import chip
from k3scope.app.runs.forward_pass import Run, Whole
from k3scope.diagrams.cost.breakdown import plain
from k3scope.model.measure import lens
from k3scope.model.measure.difference import difference
from k3scope.model.tokenizers.tokenizer import Piece

FORMS = 128  # first tokens over which all ways to compute a KDA layer are compared


def facts(whole: Whole, view: str, at: At) -> list[tuple[str, str]]:
    """Numbers that belong to a view and are no picture: name and value."""
    match view:
        case "routing" if at.layer is not None:
            return _routing(whole, at.layer)
        case "memory" if at.layer is not None:
            return _memory(whole, at)
        case "attention" if at.layer is not None:
            share = whole.attention.shared_key_share(at.layer)
            listed = ", ".join(f"{value:.0%}" for value in share)
            return [("spread of the scores from the shared key, by head", listed)]
        case "depth":
            return [
                (
                    f"sum restarts at layer {r.layer}",
                    f"{r.stored[at.token]:.3g} stored, goes on with {r.restarted[at.token]:.3g}",
                )
                for r in whole.depth.resets
            ]
    return []


def _routing(whole: Whole, layer: int) -> list[tuple[str, str]]:
    found, c, tokens = whole.routing.balance(layer), whole.config, whole.length
    dead = ", ".join(map(str, found.dead)) if 0 < len(found.dead) <= 12 else f"{len(found.dead)}"
    effect = int(whole.routing.bias_effect(layer).changed.sum())
    return [
        ("choices", f"{tokens:,} tokens × {c.top_k} = {int(found.counts.sum()):,}"),
        ("tokens each, if all were used alike", f"{found.target:.3g}"),
        ("most used", f"{1 + found.violation:.2f} times that"),
        ("entropy of the use", f"{found.entropy:.3g} of {math.log(c.experts):.3g} nats"),
        ("experts without a token", dead if len(found.dead) else "none"),
        ("choices that the bias changed", f"{effect:,}"),
    ]


def _memory(whole: Whole, at: At) -> list[tuple[str, str]]:
    write = whole.kda.write(at.layer, at.head, at.token)
    said = [
        ("head, layer", f"{at.head}, {at.layer}"),
        ("half-life", f"{plain(whole.kda.half_life(at.layer)[at.head])} tokens"),
        (f"write strength at token {at.token}", f"{write.strength:.3g}"),
    ]
    steps = whole.kda.steps(at.layer)
    told = [
        f"{getattr(steps, name)[at.token, at.head]:.3g}" for name in ("erased", "written", "change", "cosine")
    ]
    said.append(("it erased", f"{told[0]}, wrote {told[1]}, a change of {told[2]}"))
    said.append(("old prediction against new value", f"cosine {told[3]}"))
    errors = whole.kda.forms(at.layer, FORMS)
    over = "" if whole.length <= FORMS else f", first {FORMS} tokens"
    said.append((f"recurrent = chunked = step by step{over}, largest error", f"{max(errors.values()):.1e}"))
    return said


def tokens(run: Run) -> dict:
    """Every token: text, kind, id, probability, loss, rank; None where nothing predicted it."""
    found = run.readings.tokens
    rows = []
    for i, piece in enumerate(run.pieces):
        id_, text, kind = chip(piece)
        known = math.isfinite(found.prob[i])
        numbers = [float(found.prob[i]), float(found.loss[i]), int(found.rank[i])] if known else [None] * 3
        rows.append([text, kind, id_, *(round(n, 6) if isinstance(n, float) else n for n in numbers)])
    mean = found.mean_loss
    guess = math.log(run.config.vocab)
    said = f"mean loss {mean:.3f} nats; guessing would be {guess:.3f}" if math.isfinite(mean) else ""
    return {
        "rows": rows,
        "vocab": run.config.vocab,
        "summary": f"{run.spec.model} {said}",
        "badge": badge(run.spec.model),
        "first_new": run.first_new,
    }


def expected(whole: Whole, token: int, piece, count: int = 8) -> dict:
    """The likeliest tokens after one: id, text, kind, probability, and whether it is what came."""
    ids, probs = lens.candidates(whole.logits[:1, token : token + 1], count)
    came = int(whole.ids[0, token + 1]) if token + 1 < whole.length else None
    rows = [
        [*chip(piece(int(i))), round(float(p), 6), int(i) == came]
        for i, p in zip(ids[0], probs[0], strict=True)
    ]
    return {"token": token, "rows": rows}


def report(ours: Whole, theirs: Whole, pieces: tuple[Piece, ...]) -> list[tuple[str, str]]:
    """How two runs differ: `theirs` is what is compared with. ValueError when they share no token."""
    pairs = Pairs.of(ours, theirs)
    found = difference(theirs, ours, pairs.positions[:, ::-1])
    changed, loss = int(found.top_changed.sum()), found.mean_loss
    most = int(np.nanargmax(found.kl)) if np.isfinite(found.kl).any() else 0
    at = int(found.pairs[most, 1])
    kept = float(np.mean(found.routes)) if found.routes.size else None
    first = next((n for n, row in zip(found.layers, found.shift, strict=True) if row.max() > 1e-6), None)
    said = [
        ("tokens in common", f"{len(found.pairs):,} of {ours.length:,}"),
        ("another likeliest next token", f"{changed:,}"),
        ("KL of the next token, mean", f"{float(np.mean(found.kl)):.3g} nats"),
        ("largest", f"{found.kl[most]:.3g} nats at token {at} {chip(pieces[at])[1]!r}"),
        ("loss", "not known" if math.isnan(loss) else f"{loss:+.3g} nats"),
        ("first layer that differs", "none" if first is None else str(first)),
    ]
    return said if kept is None else [*said, ("experts that both chose", f"{kept:.0%}")]

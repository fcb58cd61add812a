"""What a trained model does inside, as numbers: specialised experts, memory, depth, recall."""

from random import Random

import numpy as np
import torch
from torch import Tensor

from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.measure.logit_lens import logits_after, scored
from k3scope.model.tracing import Trace, trace
from k3scope.model.training import tasks
from k3scope.model.training.evaluation import spread

OFTEN = 20  # a token must occur so often for its mean to be reported
TASKS = 60  # held-out tasks of each kind
SEED = 900_000  # far from the seeds of the corpus


def experts(model: KimiK3, windows: dict[str, Tensor]) -> dict:
    """By MoE layer: bits that the domain tells about the expert, and the largest multiple of a fair share."""
    counts = {}
    for ids in windows.values():
        run = trace(model, ids[:, :-1], [p for p, _ in model.named_modules() if p.endswith("gate.topk_idx")])
        for point, index in run.values.items():
            row = torch.bincount(index.flatten(), minlength=model.config.experts).double()
            counts.setdefault(point.split(".")[3], []).append((row / row.sum()).numpy())
    results = {}
    for layer, rows in counts.items():
        shares = np.stack(rows)  # [domains, experts]
        top = np.unravel_index(shares.argmax(), shares.shape)
        results[layer] = {
            "mutual_information": round(_mutual_information(shares), 3),
            "largest_share": round(float(shares[top] * model.config.experts), 2),
            "of": [list(windows)[top[0]], int(top[1])],
            "least_used": round(float(shares.mean(0).min() * model.config.experts), 2),
        }
    return results


def half_lives(model: KimiK3, windows: dict[str, Tensor]) -> dict:
    """By KDA layer: 10, 50, 90 % of the channels' median half-lives, and the variation over tokens."""
    points = [p for p, _ in model.named_modules() if p.endswith("self_attn.decay")]
    ids = torch.cat([w[:1, :-1] for w in windows.values()])
    results = {}
    for point, decay in trace(model, ids, points).values.items():
        flat = decay.flatten(0, 1)
        variation = (flat.std(0) / -flat.mean(0)).mean()
        results[point.split(".")[3]] = {"half_lives": spread(flat), "variation": round(variation.item(), 2)}
    return results


def resets(model: KimiK3, tokenizer, windows: dict[str, Tensor]) -> dict:
    """By KDA layer: the tokens that wipe most of the memory, each with its multiple of the mean log-decay."""
    points = [p for p, _ in model.named_modules() if p.endswith("self_attn.decay")]
    ids = torch.cat([w[:, :-1] for w in windows.values()])
    occurrences = torch.bincount(ids.flatten(), minlength=model.config.vocab)
    results = {}
    for point, decay in trace(model, ids, points).values.items():
        wiped = -decay.mean((-1, -2)).flatten().double()  # [B * T]
        sums = torch.zeros(model.config.vocab, dtype=torch.float64).index_add_(0, ids.flatten(), wiped)
        share = torch.where(occurrences >= OFTEN, sums / occurrences.clamp(min=1) / wiped.mean(), 0)
        best = share.topk(6)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        results[point.split(".")[3]] = {tokenizer.token(i).text: round(x, 2) for i, x in pairs}
    return results


def mixes(model: KimiK3, windows: dict[str, Tensor]) -> dict:
    """Mean weights of every mix over its candidates."""
    points = [p for p, _ in model.named_modules() if p.endswith("res.probs")]
    ids = torch.cat([w[:1, :-1] for w in windows.values()])
    values = trace(model, ids, points).values
    return {_short(p): [round(x, 3) for x in v.mean((0, 1)).tolist()] for p, v in values.items()}


def logit_lens(model: KimiK3, ids: Tensor) -> list[float]:
    """Nats per token if the model ended after each layer, the embedding first."""
    rows = []
    for row in ids[:, None]:
        run = trace(model, row[:, :-1])
        logits = [logits_after(model, run, layer) for layer in range(-1, model.config.layers)]
        rows.append([-scored(x, row[0, 1:])[0].mean().item() for x in logits])
    return [round(x, 3) for x in np.mean(rows, 0).tolist()]


def ablations(model: KimiK3, ids: Tensor) -> dict[str, float]:
    """Nats per token with the attention of one kind silenced in all layers."""
    nats = {"none": _nats(trace(model, ids[:, :-1], []).logits, ids)}
    for kind in ("kda", "mla"):
        layers = [i for i, k in enumerate(model.config.kinds) if k == kind]
        edits = {f"language_model.model.layers.{i}.self_attn": torch.zeros_like for i in layers}
        nats[kind] = _nats(trace(model, ids[:, :-1], [], edits).logits, ids)
    return nats


def evened(model: KimiK3, ids: Tensor) -> dict[str, float]:
    """By mix: nats per token that it costs to let this one read all its sources alike."""
    even = lambda probs: torch.full_like(probs, 1 / probs.shape[-1])  # noqa: E731
    usual = _nats(trace(model, ids[:, :-1], []).logits, ids)
    points = [p for p, _ in model.named_modules() if p.endswith("res.probs")]
    costs = {p: _nats(trace(model, ids[:, :-1], [], {p: even}).logits, ids) - usual for p in points}
    return {_short(point): round(cost, 3) for point, cost in costs.items()}


def answers(model: KimiK3, tokenizer, make, mark: str) -> float:
    """Share of answer tokens that the model holds likeliest; an answer is what follows `mark`."""
    right = total = 0
    for seed in range(TASKS):
        text = make(Random(SEED + seed))
        head, _, _ = text.partition(" ? " if mark == "=" else "What does")
        ids = tokenizer.encode(text)
        positions = _answer_positions(tokenizer, ids, len(head.encode()), mark)
        logits = _logits(model, ids)
        right += sum(int(logits[i].argmax()) == ids[i] for i in positions)
        total += len(positions)
    return round(right / total, 3)


def induction(model: KimiK3, tokenizer, repeated) -> dict:
    """Something repeated: cost by copy, and the head that looks most at what followed the last time.

    `repeated(tokenizer, random)` gives ids of three copies and the length of one.
    """
    costs, runs = [], []
    for seed in range(TASKS // 3):
        ids, period = repeated(tokenizer, Random(SEED + seed))
        at = torch.arange(period + 1, 3 * period - 1)
        run = _attention(model, ids)
        nats = torch.nn.functional.cross_entropy(run.logits[0], torch.tensor(ids), reduction="none")
        costs.append([nats[i * period : (i + 1) * period].mean().item() for i in range(3)])
        runs.append((run, at, at - period + 1))
    return {"nats_by_copy": [round(x, 3) for x in np.mean(costs, 0).tolist()]} | _best_head(runs)


def answering_head(model: KimiK3, tokenizer) -> dict:
    """Key-value: the head that looks, at "=" after a key, most at the first digit that was bound to it."""
    runs = []
    for seed in range(TASKS // 3):
        ids = tokenizer.encode(tasks.keyvalue(Random(SEED + seed), once=True))
        signs = [i for i, token in enumerate(tokenizer.tokens(ids)) if token.text == "="]
        answer_of = {ids[i - 1]: i + 1 for i in reversed(signs)}
        at = torch.tensor(signs[len(signs) // 2 :])
        runs.append((_attention(model, ids), at, torch.tensor([answer_of[ids[i - 1]] for i in at])))
    return _best_head(runs)


def _attention(model: KimiK3, ids: list[int]) -> Trace:
    points = [p for p, _ in model.named_modules() if p.endswith("self_attn.attention.probs")]
    return trace(model, torch.tensor([[model.config.bos, *ids[:-1]]]), points)


def _best_head(runs: list[tuple[Trace, Tensor, Tensor]]) -> dict:
    """Of every run: the positions that look and where they should; [BOS] moves both by one."""
    points = list(runs[0][0].values)
    looks = [[run.values[p][0][:, at + 1, to + 1].mean(-1) for p in points] for run, at, to in runs]
    mean = torch.stack([torch.stack(look) for look in looks]).mean(0)  # [MLA layers, heads]
    layer, head = divmod(int(mean.argmax()), mean.shape[1])
    return {
        "best_head": round(mean.max().item(), 3),
        "of": [int(points[layer].split(".")[3]), head],
        "chance": round(float(np.mean([(1 / (at + 2)).mean().item() for _, at, _ in runs])), 4),
    }


def nonsense(tokenizer, random: Random) -> tuple[list[int], int]:
    """Three copies of at most 16 tokens of words that are none."""
    once = tokenizer.encode("".join(f" {word}" for word in tasks.nonsense(random, 8)))[:16]
    return once * 3, len(once)


def unordered(tokenizer, random: Random) -> tuple[list[int], int]:
    """Three copies of 48 single tokens without order."""
    once = tokenizer.encode("".join(f" {word}" for word in random.sample(tasks.vocabulary(), 48)))
    return once * 3, len(once)


def _short(point: str) -> str:
    """layers.3.mlp_res"""
    return point.removeprefix("language_model.model.").removesuffix(".probs")


def _mutual_information(shares: np.ndarray) -> float:
    joint = shares / shares.sum()
    independent = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    return float((joint * np.log2((joint + 1e-12) / (independent + 1e-12))).sum())


def _answer_positions(tokenizer, ids: list[int], head: int, mark: str) -> list[int]:
    """Tokens of the answers: digits after "=", or the two words between "? The" and the full stop."""
    positions, read, inside = [], 0, False
    for i, token in enumerate(tokenizer.tokens(ids)):
        read += len(token.raw)
        text = token.raw.decode("utf-8", "replace")
        if read <= head:
            continue
        if text.strip() == mark:
            inside = True
        elif text.strip() in (";", ".", "?") or not text.strip():
            inside = False
        elif inside:
            positions.append(i)
    return positions


def _logits(model: KimiK3, ids: list[int]) -> Tensor:
    return trace(model, torch.tensor([[model.config.bos, *ids[:-1]]]), []).logits[0]


def _nats(logits: Tensor, ids: Tensor) -> float:
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    return round(loss.item(), 3)

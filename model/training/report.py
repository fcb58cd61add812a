"""Measure a trained model on held-out data.

python -m k3scope.model.training.report --corpus FOLDER --model FOLDER

Writes one JSON file: bits per byte of every domain beside simple baselines on the same bytes, and what can be
measured inside, beside the same figures of the untrained model.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import torch

from k3scope.assets import MODELS
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.loading import load
from k3scope.model.runs.bits_per_byte import bits_per_byte, text_losses, token_bytes
from k3scope.model.runs.generate import Sampling, generate
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.training import interpretability, tasks
from k3scope.model.training.baselines import SEPARATOR, byte_models, compressed
from k3scope.model.training.corpus import DOCUMENT
from k3scope.model.training.initial_model import initial_model
from k3scope.model.training.recipes import recipe_of
from k3scope.model.training.token_streams import held_out, streams

BYTES = 16_384  # of each held-out text
WINDOW = 256  # tokens, as in training
TOKENS, SAMPLING = 60, Sampling(temperature=0.7)


def report(corpus: Path, model: KimiK3, tokenizer: BpeTokenizer) -> dict:
    """Everything the model card states about quality and about the inside."""
    recipe = recipe_of(model.config)
    manifest = json.loads((corpus / "manifest.json").read_text())
    windows = held_out(streams(corpus, tokenizer, "held", recipe.domains), 4, WINDOW)
    untrained = initial_model(recipe, 0).eval().requires_grad_(False)
    return {
        "text": {d: _text(corpus, d, model, tokenizer) for d in windows},
        "corpus": {domain: manifest[domain] for domain in sorted(recipe.domains)},
        "narrative": narrative(model, tokenizer),
        "trained": _inside(model, tokenizer, windows, recipe.plainest),
        "untrained": _inside(untrained, tokenizer, windows, recipe.plainest),
        "samples": [(prompt, sample(model, tokenizer, prompt)) for prompt in recipe.prompts],
    }


def sample(model: KimiK3, tokenizer: BpeTokenizer, prompt: str) -> str:
    """What comes after a prompt, at the first try."""
    ids = generate(model, tokenizer.encode(prompt), TOKENS, SAMPLING, stop=model.config.stops)
    return tokenizer.decode(list(ids))


def narrative(model: KimiK3, tokenizer: BpeTokenizer) -> dict:
    """Bits per byte of a simple narrative that was written for this and is in no corpus."""
    data = (Path(__file__).parent / "narrative.txt").read_bytes()
    ids = tokenizer.encode(data.decode())
    bits = bits_per_byte(text_losses(model, ids, WINDOW), torch.tensor(ids), token_bytes(tokenizer))
    results = {"bytes": len(data), "tokens": len(ids), "model": bits} | compressed(data)
    return {name: round(value, 3) for name, value in results.items()}


def _text(corpus: Path, domain: str, model: KimiK3, tokenizer: BpeTokenizer) -> dict:
    """Bits per byte of held-out documents, each read from its start by every model."""
    train, held = ((corpus / "text" / f"{domain}.{part}.txt").read_text() for part in ("train", "held"))
    documents = _cut(held.split(DOCUMENT))
    ids = [tokenizer.encode(document) for document in documents]
    losses = torch.cat([text_losses(model, part, WINDOW) for part in ids])
    targets = torch.tensor([i for part in ids for i in part])
    training_text, read = (SEPARATOR.join(texts).encode() for texts in (train.split(DOCUMENT), documents))
    results = {"bytes": len(read) - read.count(0), "tokens": len(targets)}
    results["model"] = bits_per_byte(losses, targets, token_bytes(tokenizer))
    results |= compressed(read) | byte_models(training_text, read)
    results = {name: round(value, 3) for name, value in results.items()}
    print(domain, results, flush=True)
    return results


def _cut(documents: list[str]) -> list[str]:
    """The first documents, `BYTES` in all."""
    first, left = [], BYTES
    for document in documents:
        first.append(document.encode()[:left].decode("utf-8", "ignore"))
        left -= len(first[-1].encode())
        if left < 4:  # less than a character may need
            break
    return [document for document in first if document]


def _inside(model: KimiK3, tokenizer: BpeTokenizer, windows: dict, plainest: str) -> dict:
    return {
        "experts": interpretability.experts(model, windows),
        "resets": interpretability.resets(model, tokenizer, windows),
        "memory": interpretability.half_lives(model, windows),
        "mixes": interpretability.mixes(model, windows),
        "lens": interpretability.logit_lens(model, windows[plainest]),
        "ablations": interpretability.ablations(model, windows[plainest]),
        "evened": interpretability.evened(model, windows[plainest]),
        "keyvalue_digits_right": interpretability.answers(
            model, tokenizer, partial(tasks.keyvalue, once=True), "="
        ),
        "recall_words_right": interpretability.answers(
            model, tokenizer, partial(tasks.recall, times=1), "The"
        ),
        "answering_head": interpretability.answering_head(model, tokenizer),
        "induction": {
            "nonsense": interpretability.induction(model, tokenizer, interpretability.nonsense),
            "unordered": interpretability.induction(model, tokenizer, interpretability.unordered),
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--model", default="k3-tiny")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    trained = load(options.model, torch.float32)
    tokenizer = BpeTokenizer.load(MODELS / "k3-tiny" / "tokenizer.json")
    measurements = report(options.corpus, trained, tokenizer)
    options.out.write_text(json.dumps(measurements, indent=1) + "\n")

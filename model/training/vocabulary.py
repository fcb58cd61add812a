"""Learn the tokenizer: python -m k3scope.model.training.vocabulary --corpus FOLDER --out tokenizer.json

The package `tokenizers` counts and merges; the split into pre-tokens and the file are our own (`bpe.py`).
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from k3scope.model.tokenizers.bpe import SPLIT, BpeTokenizer
from k3scope.model.tokenizers.tokenizer import SPECIALS
from k3scope.model.training.corpus import DOCUMENT

VOCAB = 2048
# share of the training text by domain: what the vocabulary is spent on
SHARES = {
    "story": 0.20, "german": 0.08, "french": 0.08, "spanish": 0.08, "recall": 0.05, "keyvalue": 0.02,
    "copying": 0.02, "repeat": 0.03, "arithmetic": 0.02, "counting": 0.01, "brackets": 0.01,
    "austen": 0.11, "moby": 0.05, "speeches": 0.05, "bible": 0.05, "code": 0.14, "glosses": 0.07,
    "docs": 0.05,
}  # fmt: skip
CHARACTERS = 12_000_000
_BOUNDARY = "\x01"  # occurs in no text


def learn(corpus: Path) -> BpeTokenizer:
    """A tokenizer of `VOCAB` ids from the training text of every domain."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # only to learn merges

    learner = Tokenizer(models.BPE())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learner.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(_BOUNDARY, "removed"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])  # fmt: skip
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(SPECIALS), initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(_pretokens(corpus), trainer)
    return BpeTokenizer(_merges(learner.to_str()), list(SPECIALS))


def _pretokens(corpus: Path) -> Iterator[str]:
    for domain, share in SHARES.items():
        text = (corpus / "text" / f"{domain}.train.txt").read_text()[: int(CHARACTERS * share)]
        for document in text.split(DOCUMENT):
            yield _BOUNDARY.join(SPLIT.findall(document))


def _merges(saved: str) -> list[tuple[int, int]]:
    """Pairs of ids in the order they were learned; the package writes bytes as printable characters."""
    ids = {character: byte for byte, character in _byte_characters().items()}
    pairs = []
    for merge in json.loads(saved)["model"]["merges"]:
        a, b = merge if isinstance(merge, list) else merge.split(" ")
        pairs.append((ids[a], ids[b]))
        ids[a + b] = 256 + len(pairs) - 1
    return pairs


def _byte_characters() -> dict[int, str]:
    """Byte -> the printable character that byte-level BPE writes for it."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    learn(options.corpus).save(options.out)

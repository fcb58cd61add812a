"""Token streams by domain, and the batches of a step: the same seed and step give the same batch."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.training.corpus import DOCUMENT

BARE = 0.3  # share of rows that lack their first id: a prompt may come without [BOS]


@dataclass(frozen=True)
class Stream:
    """All documents of one domain after one another, each begun by [BOS]."""

    ids: np.ndarray  # uint16
    bos: int
    text_bytes: int  # UTF-8 bytes of the documents

    @cached_property
    def starts(self) -> np.ndarray:
        return np.flatnonzero(self.ids == self.bos)

    @property
    def bytes_per_token(self) -> float:
        return self.text_bytes / (len(self.ids) - len(self.starts))

    def window(self, at: int, length: int) -> np.ndarray:
        """`length` ids from the start of a document if one begins at most `length` before `at`."""
        start = self.starts[np.searchsorted(self.starts, at, side="right") - 1]
        start = start if at - start <= length else at
        start = min(start, len(self.ids) - length)
        return self.ids[start : start + length].astype(np.int64)


def streams(corpus: Path, tokenizer: BpeTokenizer, part: str, domains: Collection[str]) -> dict[str, Stream]:
    """The streams of some texts of a corpus; encoded once and stored beside the text."""
    by_domain = {}
    for domain in sorted(domains):
        path = corpus / "text" / f"{domain}.{part}.txt"
        encoded = path.with_suffix(".npy")
        if not encoded.exists() or encoded.stat().st_mtime < path.stat().st_mtime:
            documents = path.read_text().split(DOCUMENT)
            bos = tokenizer.specials["[BOS]"]
            ids = [i for document in documents for i in (bos, *tokenizer.encode(document))]
            np.save(encoded, np.array(ids, dtype=np.uint16))
        separators = path.read_bytes().count(DOCUMENT.encode()) * len(DOCUMENT.encode())
        bos = tokenizer.specials["[BOS]"]
        by_domain[domain] = Stream(np.load(encoded), bos, path.stat().st_size - separators)
    return by_domain


@dataclass(frozen=True)
class DataMix:
    """Which share of the rows comes from which domain."""

    streams: dict[str, Stream]
    shares: dict[str, float]
    seed: int = 0

    def batch(self, step: int, worker: int, rows: int, length: int) -> Tensor:
        """Ids [rows, length + 1]: inputs and, shifted by one, targets."""
        random = np.random.default_rng([self.seed, step, worker])
        domains = list(self.shares)
        weights = np.array([self.shares[d] for d in domains])
        chosen = random.choice(len(domains), size=rows, p=weights / weights.sum())
        drawn = []
        for stream in (self.streams[domains[i]] for i in chosen):
            ids = stream.window(int(random.integers(len(stream.ids) - length - 1)), length + 2)
            drawn.append(ids[1:] if random.random() < BARE else ids[:-1])
        return torch.from_numpy(np.stack(drawn))


def held_out(streams: dict[str, Stream], rows: int, length: int) -> dict[str, Tensor]:
    """Evenly spaced windows [rows, length + 1] of each held-out stream."""
    starts = {d: np.linspace(0, len(s.ids) - length - 1, rows).astype(int) for d, s in streams.items()}
    return {
        domain: torch.from_numpy(np.stack([streams[domain].window(start, length + 1) for start in positions]))
        for domain, positions in starts.items()
    }

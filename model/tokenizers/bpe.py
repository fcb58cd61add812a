"""Byte-level BPE: the tokenizer of the trained small model, in plain Python.

Text is split into pre-tokens (a word with the space before it, one digit, a run of newlines, ...), and inside
one the earliest learned pair of neighbours is merged first, until none is left.
"""

import json
import re
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from k3scope.model.tokenizers.tokenizer import Tokenizer

# every character is in exactly one pre-token, so any string round-trips
SPLIT = re.compile(r"\d| ?[^\W\d_]+|\n+| +(?! [^\W\d_])|[^\S\n ]|_+| ?[^\w\s]+", re.UNICODE)


class BpeTokenizer(Tokenizer):
    """UTF-8 bytes as ids 0..255, then the learned merges in order, then named special tokens."""

    def __init__(self, merges: list[tuple[int, int]], specials: list[str]):
        self.merges = merges
        self._rank = {pair: 256 + i for i, pair in enumerate(merges)}
        self._raw = [bytes([i]) for i in range(256)]
        for a, b in merges:
            self._raw.append(self._raw[a] + self._raw[b])
        self.specials = {name: len(self._raw) + i for i, name in enumerate(specials)}
        self.vocab = len(self._raw) + len(specials)
        self._merged = lru_cache(65536)(self._merge)

    @classmethod
    def load(cls, path: str | Path) -> "BpeTokenizer":
        """Read a tokenizer.json of this kind. ValueError when it is none."""
        try:
            raw = json.loads(Path(path).read_text())
            return cls([tuple(pair) for pair in raw["merges"]], raw["specials"])
        except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: expected a JSON file with 'merges' and 'specials' ({error})") from None

    def save(self, path: str | Path) -> None:
        pairs = ",\n".join(json.dumps(pair) for pair in self.merges)
        Path(path).write_text(f'{{"specials": {json.dumps(list(self.specials))},\n"merges": [\n{pairs}]}}\n')

    def plain(self, text: str) -> list[int]:
        return [i for pretoken in SPLIT.findall(text) for i in self._merged(pretoken)]

    def raw(self, i: int) -> bytes:
        return self._raw[i]

    def _merge(self, pretoken: str) -> tuple[int, ...]:
        ids = list(pretoken.encode("utf-8", "surrogatepass"))
        while len(ids) > 1:
            first = min(self._rank.get(pair, self.vocab) for pair in pairwise(ids))
            if first == self.vocab:
                break
            merged, i = [], 0
            while i < len(ids):
                together = i + 1 < len(ids) and self._rank.get((ids[i], ids[i + 1])) == first
                merged.append(first if together else ids[i])
                i += 2 if together else 1
            ids = merged
        return tuple(ids)

"""Byte-level BPE: the tokenizer of the trained small model, in plain Python.

Text is split into pre-tokens (a word with the space before it, one digit, a run of newlines, ...), and inside
one the earliest learned pair of neighbours is merged first, until none is left.
"""

import json
import re
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path

from k3scope.model.tokenizers.tokenizer import Tokenizer
from k3scope.model.tokenizers.vocabulary_limits import checked_vocabulary, read_object

# every character is in exactly one pre-token, so any string round-trips
SPLIT = re.compile(r"\d| ?[^\W\d_]+|\n+| +(?! [^\W\d_])|[^\S\n ]|_+| ?[^\w\s]+", re.UNICODE)

CACHED, LONGEST_CACHED = 16384, 32  # pre-tokens, and characters of one: 20 MB at most
GONE = -1  # in the place of an id that was merged into the one before it


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
        self._cached = lru_cache(CACHED)(self._merge)

    @property
    def rules(self) -> str:
        return json.dumps([SPLIT.pattern, self.merges])

    @classmethod
    def load(cls, path: str | Path) -> "BpeTokenizer":
        """Read a tokenizer.json of this kind. ValueError when it is none."""
        try:
            merges, specials = checked_vocabulary(read_object(Path(path)))
        except ValueError as error:
            reason = str(error).removeprefix(f"{path}: ")
            raise ValueError(
                f"{path}: expected a JSON file with 'merges' and 'specials' ({reason})"
            ) from None
        return cls(merges, specials)

    def save(self, path: str | Path) -> None:
        pairs = ",\n".join(json.dumps(pair) for pair in self.merges)
        Path(path).write_text(f'{{"specials": {json.dumps(list(self.specials))},\n"merges": [\n{pairs}]}}\n')

    def plain(self, text: str) -> list[int]:
        merge = self._merge, self._cached  # by whether a pre-token is short
        return [i for part in SPLIT.findall(text) for i in merge[len(part) <= LONGEST_CACHED](part)]

    def raw(self, i: int) -> bytes:
        return self._raw[i]

    def _merge(self, pretoken: str) -> tuple[int, ...]:
        """Ids of a pre-token: O(n log n) in its bytes.

        A pair is learned after its parts, so whatever a merge makes comes later than that merge: the heap
        gives the pairs in the order of their rank, and equal ones from left to right.
        """
        ids = list(pretoken.encode("utf-8", "surrogatepass"))
        after, before = list(range(1, len(ids) + 1)), list(range(-1, len(ids) - 1))
        heap = [(self._rank[pair], at) for at, pair in enumerate(pairwise(ids)) if pair in self._rank]
        heapify(heap)
        while heap:
            rank, at = heappop(heap)
            right = after[at]
            if right == len(ids) or self._rank.get((ids[at], ids[right])) != rank:
                continue  # one of the two was merged meanwhile
            ids[at], ids[right], after[at] = rank, GONE, after[right]
            if after[at] < len(ids):
                before[after[at]] = at
            for left in (before[at], at):
                if left >= 0 and after[left] < len(ids):
                    made = self._rank.get((ids[left], ids[after[left]]))
                    if made is not None:
                        heappush(heap, (made, left))
        return tuple(i for i in ids if i != GONE)

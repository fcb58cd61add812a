"""Prompts as ids: the part of a run that needs a tokenizer and no weights, done by the pool."""

from collections.abc import Sequence
from functools import lru_cache

from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.tokenizers.tokenizer import Tokenizer

TokenizerSource = tuple[str, int, str]  # what `tokenizer` takes
LONGEST = 40_000  # characters of a prompt: 2,048 tokens of text have some 10,000


@lru_cache(maxsize=16)
def tokenizer(source: str, vocab: int, digest: str) -> Tokenizer:
    """The tokenizer of a model, loaded once in each process. ValueError when its files have changed since the
    server took this digest of it: other ids would go by the id of the run.
    """
    loaded = tokenizer_of(source, vocab)
    if loaded.digest != digest:
        raise ValueError(
            "The files of the tokenizer have changed since this server began; it has to restart."
        )
    return loaded


def check_length(prompt: str) -> None:
    """ValueError for a prompt that no run takes; to be asked before it is split into tokens."""
    if len(prompt) > LONGEST:
        raise ValueError(f"The prompt has {len(prompt):,} characters; at most {LONGEST:,} are read here.")


def prompt_ids(source: TokenizerSource, before: str, prompt: str) -> list[int]:
    """Ids of special text before a prompt (for images, else empty) and of the prompt itself."""
    reader = tokenizer(*source)
    return [*reader.encode(before, specials=True), *reader.encode(prompt)]


def text_before(source: TokenizerSource, ids: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """A text that encodes to the first of these ids, and the ids that no text ends with.

    Bytes of half a character are no text. ValueError when there is no such text.
    """
    reader = tokenizer(*source)
    for length in range(len(ids), 0, -1):
        text = reader.decode(ids[:length])
        if reader.encode(text) == list(ids[:length]):
            return text, tuple(ids[length:])
    raise ValueError(f"There is no text that ends after token {len(ids) - 1}.")

"""What is checked of a tokenizer's files before a vocabulary is made of them."""

from pathlib import Path
from typing import Any

from k3scope.model.files.json_file import read_json

LARGEST_JSON = 4 * 2**20  # bytes; the trained small model's own has 21 kB
LARGEST_RANKS = 16 * 2**20  # bytes of a tiktoken.model; Kimi's own has 2.8 MB
LONGEST_TOKEN = 4096  # bytes
MOST_BYTES = 16 * 2**20  # of all tokens together
MOST_MERGES = 2**17
MOST_SPECIALS, LONGEST_SPECIAL = 1024, 256


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. ValueError when it is none."""
    raw = read_json(path, LARGEST_JSON)
    if not isinstance(raw, dict):
        raise ValueError(f"{path}: expected an object")
    return raw


def checked_vocabulary(raw: dict[str, Any]) -> tuple[list[tuple[int, int]], list[str]]:
    """Merges and special names of a tokenizer.json. ValueError names the first that cannot be."""
    merges, specials = raw.get("merges"), raw.get("specials")
    if not isinstance(merges, list) or not isinstance(specials, list):
        raise ValueError("'merges' and 'specials' are lists")
    if len(merges) > MOST_MERGES:
        raise ValueError(f"{len(merges):,} merges; at most {MOST_MERGES:,} are read")
    _check_lengths(merges)
    if len(specials) > MOST_SPECIALS or len(set(map(str, specials))) < len(specials):
        raise ValueError(f"special tokens are at most {MOST_SPECIALS:,} different names")
    for name in specials:
        if not is_special(name):
            raise ValueError(f"special tokens are names of 1 to {LONGEST_SPECIAL} letters")
    return [(a, b) for a, b in merges], specials


def is_special(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= LONGEST_SPECIAL


def _check_lengths(merges: list) -> None:
    """Each merge joins two ids that exist by then; no token gets longer than LONGEST_TOKEN."""
    lengths, total = [1] * 256, 256
    for number, pair in enumerate(merges):
        is_pair = isinstance(pair, list) and len(pair) == 2
        if not is_pair or not all(type(i) is int and 0 <= i < len(lengths) for i in pair):
            raise ValueError(f"merge {number} is no pair of ids below {len(lengths)}")
        lengths.append(lengths[pair[0]] + lengths[pair[1]])
        total += lengths[-1]
        if lengths[-1] > LONGEST_TOKEN or total > MOST_BYTES:
            raise ValueError(
                f"merge {number} makes a token of {lengths[-1]:,} bytes, {total:,} in all; "
                f"at most {LONGEST_TOKEN:,} and {MOST_BYTES:,}"
            )


def check_split(split: Any) -> None:
    """A pattern that cuts text. ValueError when it is none that can be tried."""
    if not isinstance(split, str) or not 0 < len(split) <= LONGEST_TOKEN:
        raise ValueError(f"pat_str is no pattern of up to {LONGEST_TOKEN:,} letters")

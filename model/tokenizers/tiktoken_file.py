"""The tokenizer of a checkpoint folder: `tiktoken.model`, read offline."""

import base64
import binascii
from pathlib import Path

from k3scope.model.files.json_file import read_bytes
from k3scope.model.tokenizers.tokenizer import Tokenizer
from k3scope.model.tokenizers.vocabulary_limits import (
    LARGEST_RANKS,
    LONGEST_TOKEN,
    check_split,
    is_special,
    read_object,
)

FILE, CONFIG = "tiktoken.model", "tokenizer_config.json"
RESERVED = 256  # ids after the ranks that stand for special tokens, named or not

# How text is cut before merging: `pat_str` of TikTokenTokenizer in the official tokenization_kimi.py.
# It is not in the folder's data files; many public ports quote it, and all quote the same.
_WORD = r"[^\r\n\p{L}\p{N}]?"  # at most one space or sign before a word
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI_SPLIT = "|".join([
    r"[\p{Han}]+",
    f"{_WORD}{_UPPER}*{_LOWER}+{_ENDING}",
    f"{_WORD}{_UPPER}+{_LOWER}*{_ENDING}",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])  # fmt: skip


class TiktokenTokenizer(Tokenizer):
    """Byte-pair ranks of a `tiktoken.model`, then 256 ids for special tokens."""

    def __init__(self, ranks: dict[bytes, int], specials: dict[str, int], split: str):
        try:
            from tiktoken import Encoding  # an extra: only such a folder needs it
        except ImportError:
            raise ValueError(
                f"reading {FILE} needs the package tiktoken: pip install 'k3scope[tiktoken]'"
            ) from None
        self.specials = specials
        self.split = split
        self.vocab = len(ranks) + RESERVED
        self._raw = sorted(ranks, key=ranks.get)
        try:
            self._encoding = Encoding(FILE, pat_str=split, mergeable_ranks=ranks, special_tokens={})
        except ValueError as error:
            raise ValueError(f"{CONFIG}: pat_str is no pattern ({error})") from None

    @property
    def rules(self) -> str:
        return self.split

    @classmethod
    def load(cls, folder: str | Path) -> "TiktokenTokenizer":
        """Read the ranks and the names of special tokens. ValueError names what is wrong with them."""
        folder = Path(folder)
        ranks = read_ranks(folder / FILE)
        config = _config(folder / CONFIG)
        return cls(ranks, _specials(config, len(ranks)), config.get("pat_str") or KIMI_SPLIT)

    def plain(self, text: str) -> list[int]:
        return self._encoding.encode_ordinary(text)

    def raw(self, i: int) -> bytes:
        return self._raw[i]


def read_ranks(path: Path) -> dict[bytes, int]:
    """Lines of a token in base64 and its rank; ranks count from 0 and all 256 bytes are among the tokens."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_bytes(path, LARGEST_RANKS).splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise ValueError(f"{path}: line {number} is not a base64 token and its rank") from None
    if (longest := max(map(len, ranks), default=0)) > LONGEST_TOKEN:
        raise ValueError(f"{path}: a token of {longest:,} bytes; expected at most {LONGEST_TOKEN:,}")
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise ValueError(f"{path}: the ranks are not 0 to {len(ranks) - 1}, once each")
    if missing := [b for b in range(256) if bytes([b]) not in ranks]:
        raise ValueError(f"{path}: {len(missing)} single bytes have no rank, first {missing[0]:#04x}")
    return ranks


def _config(path: Path) -> dict:
    if not path.exists():
        return {}
    config = read_object(path)
    try:
        check_split(config.get("pat_str") or KIMI_SPLIT)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(config.get("added_tokens_decoder", {}), dict):
        raise ValueError(f"{path}: added_tokens_decoder is no object")
    return config


def _specials(config: dict, first: int) -> dict[str, int]:
    """Names of the reserved ids; one that has none is called by its number."""
    added = config.get("added_tokens_decoder", {})
    names = {}
    for i in range(first, first + RESERVED):
        entry = added.get(str(i), {})
        name = entry.get("content", f"<|reserved_token_{i}|>") if isinstance(entry, dict) else None
        if not is_special(name) or name in names:
            raise ValueError(f"{CONFIG}: added_tokens_decoder gives id {i} no name of its own")
        names[name] = i
    return names

"""Text to ids and back, and a token as a person sees it."""

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property

SPECIALS = (
    "[BOS]", "[EOS]", "<|end_of_msg|>", "[PAD]", "[UNK]", "<|open|>", "<|close|>", "<|sep|>",
    "<|media_begin|>", "<|media_content|>", "<|media_end|>", "<|media_pad|>",
    "<|reserved_0|>", "<|reserved_1|>", "<|reserved_2|>", "<|reserved_3|>",
)  # fmt: skip
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True)
class Token:
    """One token as a person sees it: its id, its bytes and a printable form."""

    id: int
    raw: bytes
    text: str
    special: bool

    @property
    def part(self) -> bool:
        """Whether these bytes are no complete characters: only with their neighbours are they text."""
        try:
            self.raw.decode()
        except UnicodeDecodeError:
            return True
        return False


class Tokenizer:
    """What all tokenizers share; a subclass has `vocab`, `specials`, the bytes of an id, plain encoding."""

    vocab: int
    specials: dict[str, int]
    rules = ""  # what besides the bytes of each id decides which ids a text becomes

    def plain(self, text: str) -> list[int]:
        """Ids of text in which nothing is special."""
        raise NotImplementedError

    def raw(self, i: int) -> bytes:
        """The bytes of an id that is not special."""
        raise NotImplementedError

    def encode(self, text: str, specials: bool = False) -> list[int]:
        """Ids of `text`. Names of special tokens in it are plain text unless `specials` is set."""
        if not specials:
            return self.plain(text)
        ids, end = [], 0
        for match in self._special.finditer(text):
            ids += [*self.plain(text[end : match.start()]), self.specials[match[0]]]
            end = match.end()
        return ids + self.plain(text[end:])

    def decode(self, ids: list[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD. ValueError for an id out of range."""
        text, run = [], bytearray()
        for token in self.tokens(ids):
            if token.special:
                text += [_text(run), token.text]
                run = bytearray()
            else:
                run += token.raw
        return "".join([*text, _text(run)])

    def token(self, i: int) -> Token:
        if not 0 <= i < self.vocab:
            raise ValueError(f"token id {i} is outside this tokenizer; expected 0..{self.vocab - 1}")
        if i in self._names:
            return Token(i, b"", self._names[i], True)
        raw = self.raw(i)
        return Token(i, raw, printable(raw), False)

    def tokens(self, ids: list[int]) -> list[Token]:
        return [self.token(i) for i in ids]

    @cached_property
    def digest(self) -> str:
        """64 hex digits that stand for the ids that any text becomes."""
        digest = hashlib.sha256(json.dumps([self.vocab, self.specials, self.rules], sort_keys=True).encode())
        names = self._names
        for i in range(self.vocab):
            if i not in names:
                raw = self.raw(i)
                digest.update(b"%d %d " % (i, len(raw)) + raw)
        return digest.hexdigest()

    @cached_property
    def _names(self) -> dict[int, str]:
        return {i: name for name, i in self.specials.items()}

    @cached_property
    def _special(self) -> re.Pattern:
        longest_first = sorted(self.specials, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def printable(raw: bytes) -> str:
    """Bytes as one line of visible text; what is not text is written \\x.. byte by byte."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "".join(chr(b) if 0x20 <= b < 0x7F else f"\\x{b:02x}" for b in raw)
    return "".join(_ESCAPES.get(c, c if c.isprintable() else f"\\x{ord(c):02x}") for c in text)


def _text(run: bytearray) -> str:
    try:
        return run.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return run.decode("utf-8", "replace")

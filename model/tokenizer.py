"""Text to ids and back. Bytes first: every string round-trips."""

from dataclasses import dataclass
from typing import ClassVar

SPECIALS = (
    "[BOS]", "[EOS]", "<|end_of_msg|>", "[PAD]", "[UNK]", "<|open|>", "<|close|>", "<|sep|>",
    "<|media_begin|>", "<|media_content|>", "<|media_end|>", "<|media_pad|>",
    "<|reserved_0|>", "<|reserved_1|>", "<|reserved_2|>", "<|reserved_3|>",
)  # fmt: skip


@dataclass(frozen=True)
class Piece:
    """One token as a person sees it: its id, its bytes and a printable form."""

    id: int
    raw: bytes
    text: str
    special: bool


class ByteTokenizer:
    """UTF-8 bytes as ids 0..255, then named special tokens."""

    vocab = 256 + len(SPECIALS)
    specials: ClassVar = {name: 256 + i for i, name in enumerate(SPECIALS)}

    def encode(self, text: str, specials: bool = False) -> list[int]:
        """Ids of `text`. Names of special tokens in it are plain text unless `specials` is set."""
        if not specials:
            return list(text.encode("utf-8", "surrogatepass"))
        ids, rest = [], text
        while rest:
            at, name = min(((rest.find(n), n) for n in SPECIALS if n in rest), default=(len(rest), ""))
            ids += list(rest[:at].encode("utf-8", "surrogatepass"))
            ids += [self.specials[name]] if name else []
            rest = rest[at + len(name) :]
        return ids

    def decode(self, ids: list[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD. ValueError for an id out of range."""
        text, run = [], bytearray()
        for i in ids:
            piece = self.piece(i)
            if piece.special:
                text += [_text(run), piece.text]
                run = bytearray()
            else:
                run += piece.raw
        return "".join([*text, _text(run)])

    def piece(self, i: int) -> Piece:
        if not 0 <= i < self.vocab:
            raise ValueError(f"token id {i} is outside this tokenizer; expected 0..{self.vocab - 1}")
        if i >= 256:
            return Piece(i, b"", SPECIALS[i - 256], True)
        raw = bytes([i])
        printable = chr(i) if 0x20 <= i < 0x7F else f"\\x{i:02x}"
        return Piece(i, raw, {0x0A: "\\n", 0x09: "\\t"}.get(i, printable), False)

    def pieces(self, ids: list[int]) -> list[Piece]:
        return [self.piece(i) for i in ids]


def _text(run: bytearray) -> str:
    try:
        return run.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return run.decode("utf-8", "replace")

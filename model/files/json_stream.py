"""A large JSON object, read entry by entry: memory holds one value at a time, and never the whole text."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from k3scope.model.files.json_file import DEEPEST, check_depth, finite, no_number, too_deep

_CHUNK = 2**18  # bytes
_SPACE = re.compile(r"[ \t\n\r]*")
_KEY = re.compile(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*')


@dataclass(frozen=True)
class Limits:
    """What a text may hold. `marks`: how often a character may stand in it, inside strings as well."""

    marks: dict[str, int]
    largest_value: int = 4 * 2**20  # letters
    deepest: int = DEEPEST


class JsonStream:
    """The next `size` bytes of a file as one JSON object in UTF-8. ValueError says why it is none."""

    def __init__(self, file: BinaryIO, size: int, limits: Limits):
        self._file, self._left, self._limits = file, size, limits
        self._marks = dict(limits.marks)
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text, self._at, self._gone = "", 0, 0
        self._value = (0, 0)  # where the last value stands in the text
        self._scan = json.JSONDecoder(
            object_pairs_hook=_once, parse_float=finite, parse_constant=no_number
        ).scan_once

    def entries(self) -> Iterator[str]:
        """The keys of the object that begins here; read the value of each before the next."""
        self._take("{")
        if self._next() == "}":
            self._at += 1
            return
        while True:
            yield self._key()
            mark = self._text[self._at] if self._at < len(self._text) else ""
            if mark not in (",", "}"):
                mark = self._next()
            if mark not in (",", "}"):
                raise self._fault("expected ',' or '}'")
            self._at += 1
            if mark == "}":
                return

    def value(self) -> Any:
        """The value that begins here. A key that stands twice in an object of it is a ValueError."""
        self._next()
        value, end = self._whole(lambda: self._scan(self._text, self._at))
        if end - self._at > 2 * self._limits.deepest:
            check_depth(self._text[self._at : end], self._limits.deepest - 1)
        self._value = (self._at, end)
        self._at = end
        return value

    def found(self, pattern: re.Pattern) -> bool:
        """Whether the text of the last value has such a place."""
        return pattern.search(self._text, *self._value) is not None

    def holds(self, text: str) -> bool:
        """Whether the text of the last value holds another."""
        return self._text.find(text, *self._value) >= 0

    def end(self) -> None:
        """Nothing but spaces follows."""
        if self._next():
            raise self._fault("more follows behind its end")

    def _key(self) -> str:
        match = _KEY.match(self._text, self._at)
        if match and match.end() < len(self._text):
            self._at = match.end()
            return match[1]
        if self._next() != '"':
            raise self._fault("expected a name in quotes")
        key, self._at = self._whole(lambda: json.decoder.scanstring(self._text, self._at + 1, True))
        self._take(":")
        return key

    def _whole(self, scan) -> tuple[Any, int]:
        """What `scan` finds, once enough of the text is there."""
        while True:
            try:
                value, end = scan()
                if end < len(self._text) or not self._more():  # a number might go on
                    return value, end
                continue
            except RecursionError:
                raise ValueError(too_deep(self._limits.deepest)) from None
            except (StopIteration, json.JSONDecodeError) as error:
                why = getattr(error, "msg", "expected a value")
            except ValueError as error:  # a key twice, NaN, a number of thousands of digits
                raise ValueError(f"not valid JSON ({str(error).partition(';')[0]})") from None
            if len(self._text) - self._at > (most := self._limits.largest_value):
                raise self._fault(f"{why}, or a value of over {most:,} letters")
            if not self._more():
                raise self._fault(why)

    def _take(self, mark: str) -> None:
        if self._next() != mark:
            raise self._fault(f"expected {mark!r}")
        self._at += 1

    def _next(self) -> str:
        """The next letter that is no space; "" at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on, at least as much as waits; False at the end."""
        if not self._left:
            return False
        raw = self._file.read(min(self._left, max(_CHUNK, len(self._text) - self._at)))
        self._left = self._left - len(raw) if raw else 0
        try:
            text = self._decode(raw, final=not self._left)
        except UnicodeDecodeError:
            raise ValueError("not valid JSON (expected text in UTF-8)") from None
        for mark in self._marks:
            self._marks[mark] -= text.count(mark)
            if self._marks[mark] < 0:
                raise ValueError(f"{mark!r} over {self._limits.marks[mark]:,} times")
        self._gone += self._at
        self._text, self._at = self._text[self._at :] + text, 0
        return True

    def _fault(self, why: str) -> ValueError:
        return ValueError(f"not valid JSON ({why} at letter {self._gone + self._at:,})")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"{twice[:40]!r} stands twice in an object")
    return found

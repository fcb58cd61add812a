"""JSON that somebody brings: read whole within a limit, or refused in one sentence."""

import json
import stat
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

DEEPEST = 200  # objects and lists inside each other
_NOT_MARKS = bytes(set(range(256)) - set(b'"[]{}'))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"[{")], _STEPS[list(b"]}")] = 1, -1
_CHUNK = 2**20


def read_json(path: Path, most: int) -> Any:
    """What a file of at most `most` bytes holds. ValueError says what is wrong with it."""
    try:
        return parse_json(read_bytes(path, most))
    except ValueError as error:
        sentence = str(error)
        raise ValueError(sentence if sentence.startswith(str(path)) else f"{path}: {sentence}") from None


def read_bytes(path: Path, most: int) -> bytes:
    """The bytes of a regular file. ValueError when it is none, or larger than `most`."""
    size = file_size(path)
    if size > most:
        raise ValueError(f"{path}: {size:,} bytes; expected at most {most:,}")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def file_size(path: Path) -> int:
    """Bytes of a regular file; a pipe or a device, whose reading might never end, is a ValueError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise ValueError(f"{path}: cannot be read ({getattr(error, 'strerror', error)})") from None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: not a file; expected a regular one")
    return status.st_size


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text in UTF-8. ValueError gives the reason when it is none."""
    check_depth(text)
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(text, parse_constant=no_number)
    except UnicodeDecodeError:
        raise ValueError("not valid JSON (expected text in UTF-8)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise ValueError(too_deep(DEEPEST)) from None
    except ValueError as error:  # NaN, or a number of thousands of digits
        raise ValueError(f"not valid JSON ({str(error).partition(';')[0]})") from None


def check_depth(text: str | bytes, deepest: int = DEEPEST) -> None:
    """ValueError when more than `deepest` objects and lists are inside each other; nothing is parsed."""
    openers = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if sum(map(text.count, openers)) <= deepest:
        return
    if isinstance(text, str):
        text = text.encode("ascii", "replace")
    text = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NOT_MARKS)
    text = text.replace(b'""', b"")  # a string without brackets, or the gap between two: no end moves
    depth = quotes = 0
    for start in range(0, len(text), _CHUNK):
        marks = np.frombuffer(text, np.uint8, min(_CHUNK, len(text) - start), start)
        inside = (quotes + np.cumsum(marks == ord('"'))) % 2  # of a string
        steps = np.where(inside, 0, _STEPS[marks])
        levels = depth + np.cumsum(steps)
        if levels.max() > deepest:
            raise ValueError(too_deep(deepest))
        depth, quotes = int(levels[-1]), int(inside[-1])


def too_deep(deepest: int) -> str:
    return f"JSON nested too deeply; expected at most {deepest} levels"


def no_number(text: str):
    """NaN and Infinity, which Python would take."""
    raise ValueError(f"{text} is no number of JSON")


def finite(text: str) -> float:
    """A number with a fraction or an exponent. ValueError when it is too large to be one."""
    if not isfinite(value := float(text)):
        raise ValueError("a number out of range")
    return value

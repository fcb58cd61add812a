"""JSON that somebody brings: read whole within a limit, or refused in one sentence."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path}: not a file; expected a regular one")
    return status.st_size


def parse_json(text: str | bytes, entry: Callable[[dict], Any] | None = None) -> Any:
    """The value of a JSON text in UTF-8, each object passed through `entry`.

    ValueError gives the reason when it is none.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return json.loads(text, object_hook=entry, parse_constant=_no_number)
    except UnicodeDecodeError:
        raise ValueError("not valid JSON (expected text in UTF-8)") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from None
    except RecursionError:
        raise ValueError("not valid JSON (nested too deeply)") from None
    except ValueError as error:  # NaN, a number of thousands of digits, or what `entry` refuses
        raise ValueError(f"not valid JSON ({str(error).partition(';')[0]})") from None


def _no_number(text: str):
    raise ValueError(f"{text} is no number of JSON")

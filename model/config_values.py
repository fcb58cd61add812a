"""Values of a config.json, each checked as it is read; a ValueError names the official key."""

import difflib
from collections.abc import Iterable
from math import isfinite
from reprlib import repr as short
from typing import Any

from k3scope.model.config_limits import LIMITS

_KINDS = {dict: "an object", list: "a list"}


def need(section: dict[str, Any], key: str, kind: type = object) -> Any:
    """The value of a key that must be there."""
    if key not in section:
        close = difflib.get_close_matches(key, filter(None, map(str, section)), 1)
        hint = f" (there is {short(close[0])}: a different key)" if close else ""
        raise ValueError(f"config.json: the key {key!r} is missing{hint}")
    if not isinstance(section[key], kind):
        raise ValueError(f"config.json: {key} is {short(section[key])}; expected {_KINDS[kind]}")
    return section[key]


def optional(section: dict[str, Any], key: str, kind: type) -> Any:
    """The value of a key, None where it is null or absent."""
    return None if section.get(key) is None else need(section, key, kind)


def whole(section: dict[str, Any], key: str, least: int = 1) -> int:
    """A whole number from `least` to what LIMITS says; 128.0 is one, 128.5 is none."""
    value = number(section, key)
    if value != int(value):
        raise ValueError(f"config.json: {key} is {short(value)}; expected a whole number")
    if value < least:
        raise ValueError(f"config.json: {key} is {written(int(value))}; expected at least {least}")
    if value > (most := LIMITS[key]):
        raise ValueError(f"config.json: {key} is {written(int(value))}; at most {most:,} is read")
    return int(value)


def whole_or_none(section: dict[str, Any], key: str, least: int = 1) -> int | None:
    """A whole number, or None where the key is null or absent."""
    return None if section.get(key) is None else whole(section, key, least)


def positive(section: dict[str, Any], key: str) -> float:
    """A number above zero that a model can compute with."""
    value = number(section, key)
    if not value > 0:
        raise ValueError(f"config.json: {key} is {short(value)}; expected a positive number")
    return value


def number(section: dict[str, Any], key: str) -> int | float:
    value = need(section, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"config.json: {key} is {short(value)}; expected a number")
    finite = isinstance(value, int) or isfinite(value)
    if not finite or (key not in LIMITS and abs(value) >= 1e30):
        raise ValueError(
            f"config.json: {key} is {short(value)}; expected a number that a model can compute with"
        )
    return value


def token_ids(sections: Iterable[dict[str, Any]], key: str) -> tuple[int, ...]:
    """The ids of a token: one, or a list of those that mean the same; none where null or -1 stands."""
    value = next((s[key] for s in sections if s.get(key) is not None), None)
    values = value if isinstance(value, list) else [] if value is None else [value]
    ids = dict.fromkeys(whole({key: v}, key, -1) for v in values[:1000])
    return tuple(i for i in ids if i >= 0)


def fixed(section: dict[str, Any], table: dict[str, Any]) -> None:
    """Keys that have the one value these models implement."""
    for key, value in table.items():
        actual = need(section, key)
        if type(actual) is float and type(value) is int:  # 1.0, as some tools write it
            actual = int(actual) if actual == value else actual
        if isinstance(actual, bool) != isinstance(value, bool) or actual != value:
            raise ValueError(f"config.json: {key} is {short(actual)}; only {value!r} is implemented")


def written(value: int) -> str:
    """A number for a sentence, cut where it has more digits than one reads."""
    return f"{value:,}" if abs(value) < 10**20 else short(value)

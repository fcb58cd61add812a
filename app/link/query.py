"""The link: a query string that brings a colleague to the same view, and back to a state."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_plus

from k3scope.app.link import fields
from k3scope.app.link.fields import LinkTargets

MAX_PROMPT = 7000  # encoded characters; a longer one stays out: proxies refuse a request line of 8 KB
MAX_QUERY = 2**16  # characters that are read of a query; Tornado takes no longer request line
MAX_UNKNOWN = 2000  # characters of the keys of others, which every link written afterwards would carry
MAX_PROMPT_OF_A_STORED_RUN = 1000  # a longer one stays out when the run that the link names holds it
TOO_LONG = f"This link is longer than {MAX_QUERY:,} characters: what comes after them is not read."


@dataclass(frozen=True)
class Link:
    """A link that was read: every field's value, the keys of others as they stood, and what went wrong."""

    values: dict[str, Any]
    unknown: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def _decode(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("not valid UTF-8") from None


def _encode(text: str) -> str:
    return quote(text, safe=",.~-_", errors="replace")


def _problem(token: str, why: str | Exception) -> str:
    shown = token if len(token) <= 60 else token[:59] + "…"
    return f"“{shown}” could not be read: {why}."


def _split(text: str) -> tuple[dict[str, str], list[str], list[str]]:
    """The `key=value` tokens of a query: ours by field name, what stands for the version, the others."""
    ours, versions, unknown, by_key = {}, [], [], fields.by_key()
    if len(text) > MAX_QUERY:
        text = text[:MAX_QUERY].rpartition("&")[0]  # no value is read in part
    for token in filter(None, text.removeprefix("?").split("&")):
        key = token.partition("=")[0]
        if key == fields.VERSION_KEY:
            versions.append(token)
        elif key in by_key:
            ours[by_key[key].name] = token  # of a repeated key the last one counts
        else:
            unknown.append(token)
    return ours, versions, unknown if len("&".join(unknown)) <= MAX_UNKNOWN else []


def _read(tokens: dict[str, str], targets: LinkTargets, values: dict[str, Any]) -> list[str]:
    """Put what the tokens say into the values; returns the problems, as sentences."""
    problems = []
    for f in fields.FIELDS:
        if f.name in tokens:
            try:
                values[f.name] = f.read(_decode(tokens[f.name].partition("=")[2]), targets, values)
            except ValueError as error:
                problems.append(_problem(tokens[f.name], error))
    return problems


def _version(tokens: list[str], named: bool) -> tuple[int, list[str]]:
    """Whose defaults a link is read with, and what is wrong there; `named`: it has keys of ours."""
    if not tokens:
        # The bare address is no saved link, also with keys of others behind it: it opens what opens today.
        return 1 if named else fields.VERSION, []
    if len(set(tokens)) > 1:
        return fields.VERSION, [_problem("&".join(tokens), "the link names more than one version")]
    for version in range(1, fields.VERSION + 1):
        if tokens[0] == f"{fields.VERSION_KEY}={version}":
            return version, []
    return fields.VERSION, [_problem(tokens[0], "this link is from another version of k3scope")]


def parse(search: str, targets: LinkTargets) -> Link:
    """Read a query string, with or without its question mark. What cannot be read keeps its default.

    The defaults are those of the link's own version.
    """
    ours, versions, unknown = _split(search)
    version, wrong = _version(versions, bool(ours))
    if len(search) > MAX_QUERY:
        wrong.append(TOO_LONG)
    values = {n: list(v) if isinstance(v, tuple) else v for n, v in fields.defaults(version).items()}
    problems = _read(ours, targets, values)
    return Link(values, tuple(unknown), (*problems, *wrong))


def parse_update(text: str, targets: LinkTargets, values: dict[str, Any]) -> dict[str, Any]:
    """Only the fields that `select=kda&tab=code` names, read against the values there are, and `problems`."""
    ours, _, _ = _split(text)
    if "select" in ours:
        ours = {"part": "part="} | ours  # a part belongs to the block that was chosen with it
    after = dict(values)
    problems = _read(ours, targets, after)
    if len(text) > MAX_QUERY:
        problems.append(TOO_LONG)
    return {f.name: after[f.name] for f in fields.FIELDS if f.name in ours} | {"problems": problems}


def format(values: dict[str, Any], unknown: Iterable[str] = ()) -> str:
    """The query string of a state: keys in a fixed order, defaults left out, `v`, then the keys of others.

    A state at its defaults has no `v` either: that is the bare address.
    """
    tokens = []
    for f in fields.FIELDS:
        value = values.get(f.name, f.default)
        value = tuple(value) if isinstance(value, list) else value
        if value != f.default or type(value) is not type(f.default):
            tokens.append(f"{f.key}={_encode(f.write(value))}")
    if tokens:
        tokens.append(f"{fields.VERSION_KEY}={fields.VERSION}")
    tokens += unknown
    return "?" + "&".join(tokens) if tokens else ""


def shareable(values: dict[str, Any]) -> dict[str, Any]:
    """The values without a long prompt or many tokens after it: a stored run brings them back."""
    limit = MAX_PROMPT_OF_A_STORED_RUN if values.get("run_id") else MAX_PROMPT
    sizes = {
        "prompt": len(_encode(values.get("prompt") or "")),
        "generated_ids": 4 * len(values.get("generated_ids") or ()),
    }
    return values | {name: fields.DEFAULTS[name] for name, size in sizes.items() if size > limit}

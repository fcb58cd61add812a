"""Which modules of a model are quantised, and how: by name, by pattern or by class."""

import re
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import comb, inf

from k3scope.model.quantization.scheme import Scheme

REGEX = "re:"  # how compressed-tensors marks a regular expression
LONGEST_PATTERN = 1000
LETTERS = 90  # of the longest names
MOST_STEPS = 10**8  # of one pattern on one name: half a second
MOST_SECONDS = 1.0  # for all names of a model together
CLASSES = {"Linear": ("Linear", "Module"), "Embedding": ("Embedding", "Module")}
_INNERMOST = re.compile(r"\([^()]*\)")
_ESCAPED = re.compile(r"\\.|\[[^\]]*\]")
_LAYER = re.compile(r"layers\\?\.[\d|()\[\]?:-]+")
_EXPERT = re.compile(r"(.+\.experts)\.(\d{1,9})\.(\w+)")


Apart = tuple[tuple[int, Scheme | None], ...]  # experts that are stored otherwise than the rest


@dataclass(frozen=True)
class Names:
    """A list of module names, patterns and classes, asked whether a module is in it.

    Names are looked up in sets, since writers list thousands of them.
    """

    exact: frozenset[str] = frozenset()  # of modules and classes
    modules: frozenset[str] = frozenset()  # with all that is in them
    starts: frozenset[str] = frozenset()
    ends: frozenset[str] = frozenset()
    within: tuple[str, ...] = ()
    patterns: tuple[re.Pattern, ...] = ()

    def match(self, name: str, kind: str) -> bool:
        return (
            name in self.exact
            or any(c in self.exact for c in CLASSES[kind])
            or (bool(self.modules) and any(path in self.modules for path in paths(name)))
            or (bool(self.starts) and any(name[:i] in self.starts for i in range(len(name) + 1)))
            or (bool(self.ends) and any(name[i:] in self.ends for i in range(len(name))))
            or any(part in name for part in self.within)
            or any(p.match(name) for p in self.patterns)
        )


def paths(name: str) -> Iterable[str]:
    """A module and what it is in: "a.b.c", "a.b", "a"."""
    while name:
        yield name
        name = name.rpartition(".")[0]


@dataclass(frozen=True)
class Rules:
    """Schemes by what they are for. An exact name is stronger than a pattern, a pattern than a class."""

    exact: dict[str, Scheme] = field(default_factory=dict)
    below: dict[str, Scheme] = field(default_factory=dict)  # a module with all that is in it
    patterns: tuple[tuple[re.Pattern, Scheme], ...] = ()
    classes: dict[str, Scheme] = field(default_factory=dict)
    ignore: Names = Names()
    _memo: dict = field(default_factory=dict)
    _spent: list[float] = field(default_factory=lambda: [0.0])  # seconds

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """Each scheme once, in their order."""
        named = (s for _, s in self.patterns)
        return tuple(
            dict.fromkeys((*self.exact.values(), *self.below.values(), *named, *self.classes.values()))
        )

    def scheme(self, name: str, kind: str = "Linear") -> Scheme | None:
        """How a module is stored; None: as it is. ValueError when the patterns take too long."""
        key = name, kind
        if key not in self._memo:
            start = time.thread_time()
            self._memo[key] = None if self.ignore.match(name, kind) else self._chosen(name, kind)
            self._spent[0] += time.thread_time() - start
            if self._spent[0] > MOST_SECONDS:
                raise ValueError(
                    "config.json: the patterns of quantization_config take more than "
                    f"{MOST_SECONDS:g} s on the names of this model; expected simpler ones"
                )
        return self._memo[key]

    def named(self, name: str) -> bool:
        """Whether a target means this module itself, and not just its class."""
        return self._by_name(name) is not None

    def bank(self, base: str, matrix: str, experts: int) -> tuple[Scheme | None, Apart]:
        """How a matrix is stored in most experts below `base`, and those that are stored otherwise."""

        def scheme(expert: int) -> Scheme | None:
            return self.scheme(f"{base}.{expert}.{matrix}")

        first = scheme(0)
        if all(scheme(expert) == first for expert in self._distinct(base, matrix, experts)):
            return first, ()
        each = [scheme(expert) for expert in range(experts)]
        common = max(dict.fromkeys(each), key=each.count)
        return common, tuple((n, s) for n, s in enumerate(each) if s != common)

    def _chosen(self, name: str, kind: str) -> Scheme | None:
        if (scheme := self._by_name(name)) is not None:
            return scheme
        return next((self.classes[c] for c in CLASSES[kind] if c in self.classes), None)

    def _by_name(self, name: str) -> Scheme | None:
        if name in self.exact:
            return self.exact[name]
        if self.below and (inside := next((p for p in paths(name) if p in self.below), None)):
            return self.below[inside]
        return next((scheme for pattern, scheme in self.patterns if pattern.match(name)), None)

    def _distinct(self, base: str, matrix: str, experts: int) -> Iterable[int]:
        """Experts that stand for all: the patterns cannot tell the others from them.

        A pattern tells numbers apart by their length and by the digits that it spells out.
        """
        listed = frozenset(e for e in self._numbered.get((base, matrix), ()) if e < experts)
        key = "alike", experts, listed  # the same in most layers
        if key not in self._memo:
            self._memo[key] = self._alike(experts, listed)
        return {*self._memo[key], *listed}

    def _alike(self, experts: int, listed: frozenset[int]) -> tuple[int, ...]:
        """The first expert of each kind of number that is not listed by itself."""
        patterns = (*self.ignore.patterns, *(p for p, _ in self.patterns))
        # numbers of layers say nothing of experts
        written = "".join(_LAYER.sub("", p.pattern) for p in patterns)
        digits = set("0123456789") if re.search(r"\d-\d", written) else set(re.findall(r"\d", written))
        kinds: dict[str, int] = {}
        for expert in range(experts):
            if expert not in listed:
                kinds.setdefault("".join(d if d in digits else "x" for d in str(expert)), expert)
        return tuple(kinds.values())

    @property
    def _numbered(self) -> dict[tuple[str, str], set[int]]:
        """Experts that the lists name one by one."""
        if "numbered" not in self._memo:
            numbered: dict[tuple[str, str], set[int]] = {}
            for name in (*self.ignore.exact, *self.exact, *self.below):
                if found := _EXPERT.fullmatch(name):
                    numbered.setdefault((found[1], found[3]), set()).add(int(found[2]))
            self._memo["numbered"] = numbered
        return self._memo["numbered"]


def compiled(pattern: str, key: str) -> re.Pattern:
    """A pattern that cannot take long on a name. ValueError names the key that has it."""
    where = f"config.json: {key} has {pattern[:80]!r}"
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"{where}, of {len(pattern):,} letters; expected at most {LONGEST_PATTERN:,}")
    if _steps(pattern) > MOST_STEPS:
        raise ValueError(f"{where}; expected fewer repeats in one pattern, and none of a group")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{where}, which is no regular expression ({error})") from None


def _steps(pattern: str) -> float:
    """How often a pattern may have to try again on one name: repeats, options and alternatives multiply."""
    plain = _ESCAPED.sub("x", pattern).replace("(?", "(")
    if re.search(r"\)[*+{]", plain):
        return inf
    return sum(map(_tries, _alternatives(plain)))


def _tries(plain: str) -> int:
    """The same, of a pattern that has alternatives only inside groups."""
    repeats, options = len(re.findall(r"[*+{]", plain)), len(re.findall(r"(?<![*+?}])\?", plain))
    tries = comb(LETTERS, repeats) * 2**options
    while group := _INNERMOST.search(plain):
        tries *= group[0].count("|") + 1
        plain = plain[: group.start()] + "x" + plain[group.end() :]
    return tries


def _alternatives(plain: str) -> list[str]:
    """The parts between those bars that stand in no group."""
    parts, depth = [""], 0
    for letter in plain:
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def names(listed: Iterable[str], key: str) -> Names:
    """A list as compressed-tensors reads it: names of modules, of classes, and what begins with `re:`."""
    listed = tuple(listed)
    patterns = tuple(compiled(p.removeprefix(REGEX), key) for p in listed if p.startswith(REGEX))
    return Names(frozenset(p for p in listed if not p.startswith(REGEX)), patterns=patterns)

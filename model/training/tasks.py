"""Small tasks in text that need a memory: recall, keys, look-ups, copying, repeats, sums, counting, brackets.

Every name or key has a space before it wherever it stands, so that it is the same token in the question.
"""

import re
from functools import cache
from random import Random

from k3scope.assets import MODELS
from k3scope.model.tokenizers.bpe import BpeTokenizer
from k3scope.model.training.stories import PEOPLE, grammar

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_SUMS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


def recall(random: Random, times: int = 3) -> str:
    """Who has what, then questions about it: each so many times, never twice before all others."""
    people = random.sample(PEOPLE["f"] + PEOPLE["m"], random.randint(2, 6))
    things = [f"{random.choice(_adjectives())} {random.choice(_nouns('objects'))}" for _ in people]
    statements = " ".join(f"{who} has the {what}." for who, what in zip(people, things, strict=True))
    questions = [
        pair for _ in range(times) for pair in random.sample([*zip(people, things, strict=True)], len(people))
    ]
    return f"Now {statements} " + " ".join(f"What does {who} have? The {what}." for who, what in questions)


def keyvalue(random: Random, once: bool = False) -> str:
    """Letters bound to two-digit numbers, then looked up: any, several times, or each once."""
    keys = random.sample(_LETTERS, random.randint(2, 8))
    table = {key: random.randint(10, 99) for key in keys}
    if once:
        queries = random.sample(keys, len(keys))
    else:
        queries = [random.choice(keys) for _ in range(random.randint(8, 24))]
    pairs = ("; ".join(f"{key}={table[key]}" for key in some) for some in (keys, queries))
    return "let " + " ? ".join(pairs)


def lookup(random: Random) -> str:
    """Words bound to words, then looked up in another order, several times."""
    words = random.sample(vocabulary(), 2 * random.randint(2, 10))
    pairs = [" ".join(pair) for pair in zip(words[::2], words[1::2], strict=True)]
    queries = [pair for _ in range(4) for pair in random.sample(pairs, len(pairs))]
    return f" {' '.join(pairs)} ? {' '.join(queries)}"


def copying(random: Random) -> str:
    """A list of words, then the same, reversed or sorted."""
    pool = _nouns("objects") + _nouns("animals") + _adjectives()
    words = random.sample(pool, random.randint(3, 9))
    task, done = random.choice([("copy", words), ("reverse", words[::-1]), ("sort", sorted(words))])
    return f"{task}: {' '.join(words)} -> {' '.join(done)}"


def repeat(random: Random, shortest: int = 4, longest: int = 16) -> str:
    """A few words that mean nothing, over and over."""
    words = _random_words(random, random.randint(shortest, longest))
    return " " + " ".join(words * max(2, 60 // len(words)))


def short_repeat(random: Random) -> str:
    """Repeats of a period of four to eight words."""
    return repeat(random, 4, 8)


def long_repeat(random: Random) -> str:
    """Words without order, over and over, with any period: more than a small memory holds."""
    words = random.sample(vocabulary(), int(4 * 20 ** random.random()))
    return " " + " ".join((words * (240 // len(words) + 1))[:240])


def letters(random: Random) -> str:
    """A few letters over and over, the same ones among them too: the smallest alphabet for a copy."""
    once = random.choices(_LETTERS, k=random.randint(3, 12))
    return " " + " ".join(once * max(2, 40 // len(once)))


def arithmetic(random: Random) -> str:
    """Sums, differences and products, one a line."""
    return "\n".join(_sum(random) for _ in range(random.randint(4, 10)))


def counting(random: Random) -> str:
    """Numbers in equal steps."""
    start, step = random.randint(0, 200), random.choice([1, 1, 2, 5, 10])
    return " " + " ".join(str(start + i * step) for i in range(random.randint(8, 24)))


def brackets(random: Random) -> str:
    """Balanced brackets of three kinds."""
    text, open_ = "", []
    for _ in range(random.randint(10, 40)):
        if open_ and random.random() < 0.48:
            text += _CLOSING[open_.pop()]
        else:
            open_.append(random.choice("([{"))
            text += open_[-1]
    return text + "".join(_CLOSING[b] for b in reversed(open_))


def _sum(random: Random) -> str:
    sign = random.choice("++-*")
    a, b = (random.randint(0, 12 if sign == "*" else 99) for _ in range(2))
    if sign == "-":
        a, b = max(a, b), min(a, b)
    return f"{a} {sign} {b} = {_SUMS[sign](a, b)}"


def _random_words(random: Random, count: int) -> list[str]:
    kind = random.randrange(5)
    if kind == 0:
        return random.sample(vocabulary(), count)
    if kind == 1:
        return random.sample(_nouns("objects") + _nouns("animals") + _adjectives(), count)
    if kind == 2:
        return random.sample(_LETTERS, count)
    return nonsense(random, count)


def nonsense(random: Random, count: int) -> list[str]:
    """Words that are none, of one to three syllables."""
    syllable = lambda: random.choice("bdfgklmnprst") + random.choice("aeiou")  # noqa: E731
    return ["".join(syllable() for _ in range(random.randint(1, 3))) for _ in range(count)]


@cache
def vocabulary() -> list[str]:
    """Words and beginnings of words that are one id of the shipped tokenizer."""
    tokenizer = BpeTokenizer.load(MODELS / "k3-tiny" / "tokenizer.json")
    tokens = [tokenizer.token(i).text for i in range(tokenizer.vocab)]
    return sorted({p[1:] for p in tokens if re.fullmatch(r" [^\W\d_]+", p)})


def _nouns(kind: str) -> list[str]:
    return [word.removeprefix("n ") for word in grammar("en")[kind]]


def _adjectives() -> list[str]:
    return grammar("en")["adjectives"]

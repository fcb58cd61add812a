"""Children's stories from one grammar in four languages: six plots, the same words, exact grammar."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import yaml

LANGUAGES = ("en", "de", "fr", "es")
PEOPLE = {
    "f": ("Mia", "Lily", "Anna", "Sara", "Nina", "Ella", "Rosa", "Yuki"),
    "m": ("Tom", "Ben", "Max", "Leo", "Sam", "Jack", "Omar", "Ivan"),
}
# first letters: of a sentence of the grammar, after a full stop, and of what somebody answers
_START = re.compile(r'(^|\. |\." |: "|" ")(["¿¡]*)(\w)')


@dataclass(frozen=True)
class Noun:
    """A noun with its articles, and with an adjective when it has one: `{ob.the_acc}` in a template."""

    language: dict
    word: str  # "f Tasse" or "f pomme/pommes"
    adjective: str = ""

    def __getattr__(self, form: str) -> str:
        gender, _, noun = self.word.partition(" ")
        one, _, many = noun.partition("/")
        if form == "many":
            return many
        if form not in self.language["articles"][gender]:
            raise AttributeError(form)
        article = self.language["articles"][gender][form]
        if not self.adjective:
            return f"{article} {one}"
        adjective = self._agreeing(gender, form)
        return self.language["order"].format(article=article, adjective=adjective, noun=one)

    def _agreeing(self, gender: str, form: str) -> str:
        if "endings" in self.language:
            return self.adjective + self.language["endings"][gender][form]
        male, _, female = self.adjective.partition("/")
        return female if gender == "f" else male


@dataclass(frozen=True)
class StoryPlace:
    near: str
    to: str


@cache
def grammar(language: str) -> dict:
    return yaml.safe_load((Path(__file__).parent / "languages" / f"{language}.yaml").read_text())


def story(random: Random, language: str = "en") -> str:
    """One story of four to nine sentences."""
    g = grammar(language)
    words = _cast(random, g)
    sentences = [random.choice(g["openings"])]
    sentences += [random.choice(options) for options in random.choice(g["plots"])]
    text = " ".join(_START.sub(_capital, sentence.format(**words)) for sentence in sentences)
    for pattern, replacement in g["rules"]:
        text = re.sub(pattern, replacement, text)
    return text


def _capital(match: re.Match) -> str:
    return match[1] + match[2] + match[3].upper()


def _cast(random: Random, g: dict) -> dict:
    """Who and what a story is about: the fields of its templates."""
    (n, sex), (m, other) = random.sample([(name, s) for s, names in PEOPLE.items() for name in names], 2)
    home, place = (StoryPlace(*p) for p in random.sample(g["places"], 2))
    thing = random.choice(g["objects"])
    x, y = random.randint(2, 9), random.randint(1, 9)
    gendered = {key: forms[sex] for key, forms in g["gendered"].items()}
    return gendered | {
        "n": n, "m": m, "he2": g["gendered"]["he"][other],
        "an": Noun(g, random.choice(g["animals"])),
        "ob": Noun(g, thing),
        "thing": Noun(g, thing, random.choice(g["adjectives"])),
        "food": Noun(g, random.choice(g["foods"])),
        "p": home, "q": place, "x": x, "y": y, "z": x + y,
        "time": random.choice(g["times"]), "under": random.choice(g["under"]),
        "into": random.choice(g["into"]),
    }  # fmt: skip

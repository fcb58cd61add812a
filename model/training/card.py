"""Write the card of a small model from what was measured: python -m k3scope.model.training.card [MODEL ...]

The text is in `cards/MODEL.md`; every $name in it is a table or figure of measurements.json
in assets/models/MODEL.
"""

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path
from string import Template

from k3scope.model.init import build
from k3scope.model.presets import TRAINED
from k3scope.model.training.recipes import RECIPES

TEMPLATES = Path(__file__).parent / "cards"
WHAT = {
    "story": "stories, English", "german": "the same grammar in German", "french": "in French",
    "spanish": "in Spanish", "recall": "who has what, then questions",
    "keyvalue": "letters bound to two-digit numbers, then looked up",
    "lookup": "words bound to words, then looked up", "copying": "lists copied, reversed, sorted",
    "letters": "3-12 letters over and over", "repeat": "4-16 words over and over",
    "short_repeat": "4-8 words over and over", "long_repeat": "4-79 single tokens over and over",
    "arithmetic": "sums, differences, products", "counting": "numbers in equal steps",
    "brackets": "balanced brackets", "austen": "six novels by Jane Austen", "moby": "Moby Dick",
    "speeches": "State of the Union, 1790-", "bible": "King James Version",
    "glosses": "WordNet definitions", "code": "CPython standard library",
    "docs": "Python documentation, source text",
}  # fmt: skip
ORDERS = [f"order {n}" for n in range(1, 6)]
SILENCED = (
    ("none", "nothing"),
    ("kda", "attention of all KDA layers"),
    ("mla", "attention of all MLA layers"),
)
REPEATED = {"nonsense": "nonsense words, 16 tokens at most", "unordered": "48 tokens without order"}


def card(name: str) -> str:
    """The card's text. KeyError when the template has what was not measured."""
    measured = json.loads((TRAINED[name] / "measurements.json").read_text())
    sides = measured["trained"], measured["untrained"]
    recipe = RECIPES[name]
    values = _text(measured) | _inside(*sides) | {"recall": _rows([*_answers(sides), *_copies(sides)])}
    values["parameters"] = f"{sum(p.numel() for p in build(recipe.config).parameters()) / 1e6:.2f}"
    values["half_lives"] = " to ".join(f"{x:g}" for x in recipe.half_lives)
    head = measured["trained"]["answering_head"]
    values["times_chance"] = f"{head['best_head'] / head['chance']:.1f}"
    values["samples"] = "\n".join(f"- **`{_code(p)}`** `{_code(new)}`" for p, new in measured["samples"])
    return Template((TEMPLATES / f"{name}.md").read_text()).substitute(values)


def _text(measured: dict) -> dict[str, str]:
    text, corpus, narrative = measured["text"], measured["corpus"], measured["narrative"]
    order = [d for d in WHAT if d in text]
    better = [d for d in order if text[d]["model"] < min(text[d][o] for o in ORDERS)]
    return {
        "corpus": _rows([d, WHAT[d], *_origin(corpus[d])] for d in order),
        "bits": _rows([d, *(f"{text[d][k]:.3f}" for k in ("model", "gzip", "xz", *ORDERS))] for d in order),
        "better": f"{len(better)} of {len(order)} domains: {', '.join(better)}",
        "domains": str(len(order)),
        "most_bits": f"{math.log2(len(order)):.2f}",
        "narrative": f"{narrative['model']:.3f} bits per byte (gzip {narrative['gzip']:.2f}, "
        f"xz {narrative['xz']:.2f}) on its {narrative['bytes']:,} bytes",
    }


def _origin(source: dict) -> tuple[str, str, str]:
    packages = ", ".join(p.replace("%3a", ":") for p in source.get("packages", {}))
    size = f"{source['train_bytes'] / 1e6:.2f}"
    return (source["licence"], packages, size) if packages else ("as this repository", "(generated)", size)


def _inside(trained: dict, untrained: dict) -> dict[str, str]:
    rows = {
        "experts": (_expert(layer, row, untrained) for layer, row in trained["experts"].items()),
        "memory": (_memory(layer, row, untrained) for layer, row in trained["memory"].items()),
        "resets": ([layer, _wiped(tokens)] for layer, tokens in trained["resets"].items()),
        "mixes": (_mix(mix, trained, untrained) for mix in trained["mixes"]),
        "silenced": (_silenced(*kind, trained, untrained) for kind in SILENCED),
    }
    return {name: _rows(table) for name, table in rows.items()} | {
        "variation": _range(row["variation"] for row in trained["memory"].values()),
        "variation_untrained": _range(row["variation"] for row in untrained["memory"].values()),
        "lens": _list(trained["lens"], 2),
        "lens_untrained": _range(untrained["lens"]),
    }


def _expert(layer: str, row: dict, untrained: dict) -> list[str]:
    bits = (side["mutual_information"] for side in (row, untrained["experts"][layer]))
    domain, expert = row["of"]
    most = f"{row['largest_share']:.1f} (expert {expert}, {domain})"
    return [layer, *(f"{b:.2f}" for b in bits), most, f"{row['least_used']:.2f}"]


def _memory(layer: str, row: dict, untrained: dict) -> list[str]:
    sides = row, untrained["memory"][layer]
    return [layer, *(_list(s["half_lives"]) for s in sides), *(f"{s['variation']:.2f}" for s in sides)]


def _wiped(tokens: dict[str, float]) -> str:
    return ", ".join(f"`{_code(token)}` {times:.2f}" for token, times in tokens.items())


def _mix(mix: str, trained: dict, untrained: dict) -> list[str]:
    return [mix, _list(trained["mixes"][mix], 2), *(f"{s['evened'][mix]:.3f}" for s in (trained, untrained))]


def _silenced(kind: str, label: str, trained: dict, untrained: dict) -> list[str]:
    return [label, *(f"{side['ablations'][kind]:.2f}" for side in (trained, untrained))]


def _answers(sides: tuple[dict, dict]) -> Iterable[list[str]]:
    percent = lambda name: (f"{100 * side[name]:.1f} %" for side in sides)  # noqa: E731
    yield ["key-value, each key asked once: answer digits right", *percent("keyvalue_digits_right")]
    yield ["who has what, each asked once: answer words right", *percent("recall_words_right")]
    heads = [side["answering_head"] for side in sides]
    label = f"strongest MLA head from a key to its number (chance {heads[0]['chance']:.3f})"
    yield [label, *map(_head, heads)]


def _copies(sides: tuple[dict, dict]) -> Iterable[list[str]]:
    for kind, label in REPEATED.items():
        results = [side["induction"][kind] for side in sides]
        yield [f"{label}: nats a token in copy 1, 2, 3", *(_list(s["nats_by_copy"], 2) for s in results)]
        label = (
            f"strongest MLA head there, to what followed the last time (chance {results[0]['chance']:.3f})"
        )
        yield [label, *map(_head, results)]


def _rows(rows: Iterable[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _list(values: Iterable[float], digits: int = 1) -> str:
    return ", ".join(f"{x:.{digits}f}" for x in values)


def _range(values: Iterable[float]) -> str:
    ordered = sorted(values)
    return f"{ordered[0]:.2f} to {ordered[-1]:.2f}"


def _head(measured: dict) -> str:
    layer, head = measured["of"]
    return f"{measured['best_head']:.3f} (layer {layer}, head {head})"


def _code(text: str) -> str:
    """Text inside backticks and in a table: one line, without either sign."""
    return text.replace("\n", " ⏎ ").replace("`", "'").replace("|", "\\|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(TRAINED), help="of those that ship")
    for name in parser.parse_args().models:
        (TRAINED[name] / "README.md").write_text(card(name))

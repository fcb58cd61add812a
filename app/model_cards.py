"""What the models that run here are, as their cards describe them."""

import re
from functools import cache

from k3scope.model.presets import META_ONLY, PRESETS, TRAINED

BADGES = {
    "k3-tiny": "small, trained here",
    "k3-recall": "a specialist",
    "k3-random": "random weights",
}
NO_WARNING = ("k3-tiny",)  # its badge is quiet: its numbers mean what they say
RANDOM_WEIGHTS = "its activations are real, its words and probabilities mean nothing."
UNTRAINED = (
    f"The sizes of `k3-tiny` with weights that were drawn from a seed and never trained: {RANDOM_WEIGHTS}"
)


@cache
def card(name: str) -> str:
    """The card of a model that ships with weights, as Markdown; empty for others."""
    return (TRAINED[name] / "README.md").read_text(encoding="utf-8") if name in TRAINED else ""


def address(name: str) -> str:
    """Where the page of a card is, relative to the page's own address; empty without a card."""
    return f"cards/{name}/README.md" if name in TRAINED else ""


def about(name: str) -> str:
    """What a model is, as Markdown: the two paragraphs that its card begins with. Empty without a card."""
    if name in PRESETS and name not in META_ONLY:
        return UNTRAINED
    paragraphs = card(name).split("\n\n")[1:3]  # after the title
    return "\n\n".join(paragraphs).replace("](../", "](cards/")


def badge(name: str) -> dict:
    """What stands beside the numbers of a model: text, detail, href of its card, whether to warn.

    Empty for a model that needs none.
    """
    if name not in BADGES:
        return {}
    detail = re.sub(r"\[(.*?)\]\(.*?\)|[*`]", r"\1", " ".join(about(name).split()))
    return {
        "text": BADGES[name],
        "detail": detail,
        "href": address(name),
        "warn": name not in NO_WARNING,
    }

"""Two models side by side as the page shows them: text and a pair of drawings, made by the pool."""

import json
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from k3scope.app.models import title
from k3scope.app.page.kit.templates import render
from k3scope.app.page.kit.text_cache import text_cache
from k3scope.diagrams.cost import compare_models
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene import side_by_side
from k3scope.diagrams.spec.shapes import Step


@dataclass(frozen=True)
class Other:
    """The second model: a name of this server, or the text of a config.json and what it is called."""

    name: str
    config: str = ""

    def facts(self) -> Facts:
        """ValueError says what is wrong with the config.json."""
        if not self.config:
            return Facts.of(self.name)
        return compare_models.facts_of(compare_models.read_config(self.config), self.name)

    @property
    def title(self) -> str:
        return self.name if self.config else title(self.name)


@text_cache(megabytes=16)
def text(model: str, other: Other) -> str:
    """Everything below the controls, as HTML. ValueError for a config.json that is none."""
    a, b = Facts.of(model), other.facts()
    names = title(model), other.title
    compared = compare_models.compare(a, b)
    return render(
        "compare.html",
        names=names,
        different=[f for f in compared.fields if not f.same],
        equal=[f for f in compared.fields if f.same],
        totals=compared.totals,
        blocks=compared.blocks,
        sums=(a.totals.total, b.totals.total),
        strips=[
            (name, f.config.kinds, f.config.dense_layers, compare_models.pattern(f.config.kinds))
            for name, f in zip(names, (a, b), strict=True)
        ],
        max_layers=max(a.config.layers, b.config.layers),
    )


@lru_cache(maxsize=16)
def pair_of_scenes(model: str, other: Other, opened: tuple[str, ...], step: Step) -> dict:
    """The two scenes, their names, and as `counts` how many blocks differ how: mark and text."""
    names = title(model), other.title
    pair = side_by_side.pair(Facts.of(model), other.facts(), opened, step)
    count = Counter(pair.marks.values())
    counts = [("only", f"{count['left']} only in {names[0]}")] if count["left"] else []
    counts += [("only", f"{count['right']} only in {names[1]}")] if count["right"] else []
    counts += [
        ("other", f"{count['other']} built differently"),
        ("size", f"{count['size']} with other sizes"),
    ]
    counts += [("same", f"{count['same']} equal")] if count["same"] else []
    return {"left": pair.left, "right": pair.right, "names": names, "counts": counts}


def of(model: str, other: Other, opened: tuple[str, ...], step: Step) -> tuple[str, str]:
    """The comparison as HTML, and the pair of drawings as JSON. ValueError for a config.json that is none."""
    return text(model, other), json.dumps(pair_of_scenes(model, other, opened, step))

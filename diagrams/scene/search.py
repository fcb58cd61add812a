"""Find a block by its title, its tensors, its symbols, or what its notes say."""

import re
from dataclasses import dataclass
from functools import lru_cache

from k3scope.diagrams.facts import code_listing
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import of_all_layers, parameters, points, resolve
from k3scope.diagrams.scene.block_contents import short_name
from k3scope.diagrams.spec import formula
from k3scope.diagrams.spec.block_spec import Block

LIMIT, BEFORE, AFTER = 12, 32, 72  # hits; characters of a long text around the match


@dataclass(frozen=True)
class SearchEntry:
    """A text about a block; of two that match, the one of the lower rank counts."""

    block: str
    rank: int
    what: str
    text: str
    part: str = ""  # of the block: the tensor that the text names


@dataclass(frozen=True)
class Hit:
    """A block that matches, and by which text."""

    block: str
    title: str
    kind: str
    path: tuple[str, ...]  # titles of the groups around it, the outermost first
    what: str  # which sort of text matched: "title", "tensor", ...
    text: tuple[str, str, str]  # that text in three parts, the middle one being the match
    part: str = ""  # the tensor that matches, if one does


def search(facts: Facts, query: str, limit: int = LIMIT) -> list[Hit]:
    """Blocks that match every word of the query, the best first."""
    words = query.casefold().split()
    if not words:
        return []
    best: dict[str, tuple[tuple[int, int], SearchEntry]] = {}
    for entry in index(facts.name):
        score = _score(entry, words)
        if score and (entry.block not in best or score < best[entry.block][0]):
            best[entry.block] = score, entry
    ranked = sorted(best.values(), key=lambda pair: pair[0])  # stable: the order of the view
    return [_hit(facts, entry, words[0]) for _, entry in ranked[:limit]]


@lru_cache(maxsize=8)
def index(model: str) -> tuple[SearchEntry, ...]:
    """Every text of a model that can be searched, built once."""
    facts = Facts.of(model)
    return tuple(entry for block in facts.blocks.values() for entry in _entries(facts, block))


def _entries(facts: Facts, block: Block) -> list[SearchEntry]:
    path = facts.instances(block)[0]
    texts = [(0, "title", block.title), (1, "name", block.id)]
    stored = {p: facts.layout.entries[p].name for p in parameters(facts.model, block, path)}
    texts += [(1, "tensor", of_all_layers(name), short_name(p)) for p, name in stored.items()]
    texts += [(2, "point", of_all_layers(name)) for name in points(facts.model, block, path)]
    texts += [(2, "class", name) for name in block.of]
    texts += [(3, "symbol", f"{_plain(s.symbol)}: {_meant(s.is_, path)}{s.text}") for s in block.symbols]
    summary = block.summary or code_listing.summary_of(facts.model, block)
    texts += [(4, "summary", summary), (4, "size", formula.fill_braces(block.sub, facts.sizes))]
    notes = formula.fill_braces(block.notes, facts.sizes).split("\n")
    texts += [(5, "note", line.strip()) for line in notes]
    texts += [(6, "evidence", f"{other['says']} {other['release']}") for other in block.others]
    texts += [(6, "source", " ".join(str(v) for v in source.values())) for source in block.sources]
    return [SearchEntry(block.id, *entry) for entry in texts if entry[2]]


def _plain(symbol: str) -> str:
    """A symbol without its LaTeX: g_\\min becomes g_min."""
    return re.sub(r"\\(?:mathrm|mathcal|mathbf|bar|hat|tilde)?|[{}]", "", symbol)


def _meant(name: str, path: str) -> str:
    return "" if name in ("local", ".") else f"{resolve(path, name).rpartition('.')[2]}, "


def _score(entry: SearchEntry, words: list[str]) -> tuple[int, int] | None:
    """Lower is better: the sort of text, then a whole name, the start of a word, anywhere."""
    text = entry.text.casefold()
    if not all(word in text for word in words):
        return None
    exact = words[0] in re.split(r"[.\s,:]+", text) or text == " ".join(words)
    starts = re.search(rf"\b{re.escape(words[0])}", text)
    return entry.rank, 0 if exact else 1 if starts else 2


def _hit(facts: Facts, entry: SearchEntry, word: str) -> Hit:
    blocks, parent = facts.blocks, {n.id: n.parent for n in facts.view.nodes}
    path, group = [], parent.get(entry.block)
    while group:
        path.append(blocks[group].title)
        group = parent[group]
    block = blocks[entry.block]
    text = _cut(entry.text, word)
    return Hit(block.id, block.title, block.kind, tuple(path[::-1]), entry.what, text, entry.part)


def _cut(text: str, word: str) -> tuple[str, str, str]:
    start = text.casefold().find(word)
    end = start + len(word)
    before, after = text[:start], text[end:]
    if len(text) > BEFORE + AFTER:
        before = before if len(before) <= BEFORE else "…" + before[-BEFORE:]
        after = after if len(after) <= AFTER else after[:AFTER] + "…"
    return before, text[start:end], after


def around(facts: Facts, block: str) -> list[str]:
    """The groups that must be open for a block to be seen."""
    parent = {n.id: n.parent for n in facts.view.nodes}
    groups = []
    while parent.get(block):
        groups.append(block := parent[block])
    return groups

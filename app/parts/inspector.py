"""The inspector: what a block is, what it has, the code that runs; the whole model when none is chosen."""

from functools import cache

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from app.html import render
from app.parts.header import title
from app.shell import Shell
from app.state import State
from diagrams.facts import BlockFacts, Facts

ROOT_BLOCK = "kimi_k3"
TABS = (("overview", "Overview"), ("params", "Parameters"), ("code", "Code"), ("live", "Live"))
KINDS = {
    "structure": "structure",
    "attention": "attention",
    "ffn": "FFN / MoE",
    "norm": "norm / residual",
    "embed": "embedding / head",
    "aux": "block store",
}
HIGHLIGHTS = ("kda", "mla", "latent_moe", "attn_mix", "block_store", "vision")
_formatter = HtmlFormatter(nowrap=True, classprefix="py-")


def _block(model: str, select: str) -> BlockFacts:
    return Facts.of(model).block(select or ROOT_BLOCK)


@cache
def subject(model: str, select: str) -> str:
    """Head of the inspector: kind, title, count."""
    block = _block(model, select)
    return render(
        "subject.html",
        block=block,
        title=block.title if select else title(model),
        kind=KINDS[block.kind],
        whole=Facts.of(model).totals.total,
    )


@cache
def overview(model: str, select: str) -> str:
    facts = Facts.of(model)
    chosen = [facts.block(i) for i in HIGHLIGHTS if i in facts.blocks]
    return render(
        "overview.html",
        block=_block(model, select),
        whole=None if select else facts.totals,
        highlights=chosen,
        kinds=facts.kinds,
        layers=facts.config.layers,
    )


@cache
def parameters(model: str, select: str) -> str:
    facts, block = Facts.of(model), _block(model, select)
    inside = facts.view.children(None if block.id == ROOT_BLOCK else select) if block.group else []
    parts = [facts.block(i) for i in inside if i in facts.blocks]
    return render("parameters.html", block=block, parts=parts, whole=facts.totals.total)


@cache
def code(model: str, select: str) -> str:
    block = _block(model, select)
    listings = [{"label": piece.label, "lines": _lines(piece.text, piece.marked)} for piece in block.listings]
    return render("code.html", listings=listings, legend=block.legend, model=title(model))


def _lines(text: str, marked: tuple[int, ...]) -> list[tuple[int, Markup, bool]]:
    """Highlighted lines with their numbers; Pygments closes its tags at the end of each line."""
    lines = highlight(text, PythonLexer(stripnl=False), _formatter).rstrip("\n").split("\n")
    return [(i, Markup(line), i in marked) for i, line in enumerate(lines, 1)]


SECTIONS = {"overview": ("overview", overview), "params": ("parameters", parameters), "code": ("code", code)}


def inspector(state: State, shell: Shell) -> None:
    """Show the chosen block; only the tab in view is made."""

    def show(*_):
        shell.subject = subject(state.model, state.select)
        if state.tab in SECTIONS:
            slot, make = SECTIONS[state.tab]
            setattr(shell, slot, make(state.model, state.select))

    def announce(*_):
        block = _block(state.model, state.select)
        state.notice = f"{block.title}, {block.total:,} parameters" if state.select else title(state.model)

    state.param.watch(show, ["model", "select", "tab"])
    state.param.watch(announce, "select")
    show()

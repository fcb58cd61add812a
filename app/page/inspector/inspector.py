"""The inspector: what a block is, what it has, the code that runs; the model itself when none is selected."""

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from k3scope.app import model_cards
from k3scope.app.link.state import State
from k3scope.app.models import title
from k3scope.app.page.kit.markdown import with_formulas
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.app.page.kit.text_cache import text_cache
from k3scope.diagrams.facts import provenance, stack, symbols
from k3scope.diagrams.facts.block_facts import STEP, Facts
from k3scope.diagrams.facts.derivation import derivation
from k3scope.diagrams.facts.operations import Op
from k3scope.diagrams.facts.records import BlockFacts
from k3scope.diagrams.scene import details, tour_stops
from k3scope.diagrams.scene.block_contents import Tensor
from k3scope.diagrams.spec import citations
from k3scope.diagrams.spec.shapes import Step

ROOT_BLOCK = "kimi_k3"
TABS = (("overview", "Overview"), ("params", "Parameters"), ("code", "Code"), ("live", "Live"))
KINDS = {
    "structure": "structure",
    "attention": "attention",
    "ffn": "FFN / MoE",
    "norm": "norm / residual",
    "embed": "embedding / LM head",
    "aux": "block store",
}
DEPTHS = (("line", "In a line"), ("engineer", "Engineer"), ("derivation", "Derivation"))
HIGHLIGHTS = ("kda", "mla", "latent_moe", "attn_mix", "block_store", "vision")
_formatter = HtmlFormatter(nowrap=True, classprefix="py-")


def _block(model: str, select: str, layer: int | None = None) -> BlockFacts:
    """The selected block; without a selection that of the chosen layer, else of the model."""
    return Facts.of(model).block(select or (ROOT_BLOCK if layer is None else stack.LAYER), layer)


def _title(model: str, block: BlockFacts, layer: int | None) -> str:
    if block.id == ROOT_BLOCK:
        return title(model)
    if block.id == stack.LAYER and layer is not None:
        return stack.layer(Facts.of(model).config, layer).title
    return block.title


@text_cache(megabytes=16)
def subject(model: str, select: str, layer: int | None = None) -> str:
    """Head of the inspector: kind, title, count."""
    facts, block = Facts.of(model), _block(model, select, layer)
    shown_layer = layer if layer in block.layers else None  # None where the numbers are of all its layers
    return render(
        "subject.html",
        block=block,
        title=_title(model, block, layer),
        kind=KINDS[block.kind],
        model_total=facts.totals.total,
        bytes=facts.bytes(block.id, shown_layer) if block.total else 0,
        shown_layer=shown_layer,
        total=provenance.of_block(facts, block, layer),
    )


def part(model: str, select: str, layer: int | None, name: str, step: Step) -> str:
    """What is chosen of the block: a tensor, an operation or an arrow; nothing without a name."""
    chosen = details.detail(Facts.of(model), select, name, layer, step) if name else None
    kind = {Tensor: "tensor", Op: "op", list: "arrow"}.get(type(chosen))
    return render("block_part.html", kind=kind, part=chosen, step=step) if kind else ""


@text_cache(megabytes=16)
def overview(
    model: str,
    select: str,
    layer: int | None = None,
    step: Step = STEP,
    depth: str = "engineer",
    ran: bool = False,
) -> str:
    """What the block is, at one of three depths; `ran` adds ways to the values of a run."""
    facts, block = Facts.of(model), _block(model, select, layer)
    derived = with_formulas(derivation(facts, block.id))
    return render(
        "overview.html",
        block=block,
        select=select,
        depth="engineer" if block.id == ROOT_BLOCK or (depth == "derivation" and not derived) else depth,
        depths=DEPTHS,
        derivation=derived,
        ran=ran,
        symbols=list(zip(block.symbols, symbols.locations(facts, block.id), strict=True)),
        names_in_code=_names_in_code(facts, block),
        marks=citations.MARKS,
        pinned=citations,
        others=[(o, citations.citations_in(o["source"])) for o in block.others],
        layer=stack.layer(facts.config, layer) if block.id == stack.LAYER and layer is not None else None,
        step=step,
        inputs=facts.inputs(block.id, step),
        outputs=facts.outputs(block.id, step),
        **_model_overview(facts, block),
    )


def _model_overview(facts: Facts, block: BlockFacts) -> dict:
    """What the overview of the model has besides that of a block."""
    if block.id != ROOT_BLOCK:
        return {"is_model": False}
    stops = tour_stops.stops(facts)
    return {
        "is_model": True,
        "about": model_cards.about(facts.name),
        "card": model_cards.address(facts.name),
        "headlines": provenance.headlines(facts),
        "notes": facts.notes,
        "highlights": [facts.block(i) for i in HIGHLIGHTS if i in facts.blocks],
        "kinds": facts.kinds,
        "release": provenance.snapshot(facts) is not None,
        "layers": facts.config.layers,
        "tour": tour_stops.stop_query(stops[0], 1),
        "stops": len(stops),
    }


def _names_in_code(facts: Facts, block: BlockFacts) -> tuple[str, ...]:
    """Names of the symbols that the block's listings mention."""
    names = [n for location in symbols.locations(facts, block.id) for n in location.names]
    text = "\n".join(listing.text for listing in block.listings)
    return symbols.names_in(text, tuple(dict.fromkeys(names)))


@text_cache(megabytes=16)
def parameters(model: str, select: str, layer: int | None = None) -> str:
    facts, block = Facts.of(model), _block(model, select, layer)
    children = facts.view.children(None if block.id == ROOT_BLOCK else block.id) if block.group else []
    parts = [facts.block(i, layer) for i in children if i in facts.blocks]
    of_layer = layer is not None and layer in block.layers
    if of_layer:
        parts = [part for part in parts if layer in facts.block(part.id).layers]
    return render(
        "parameters.html",
        block=block,
        parts=parts,
        model_total=facts.totals.total,
        of_layer=of_layer,
        total=provenance.of_block(facts, block, layer),
        share=provenance.of_share(facts, block),
    )


@text_cache(megabytes=32)
def code(model: str, select: str, layer: int | None = None) -> str:
    block = _block(model, select, layer)
    facts = Facts.of(model)
    names = _names_in_code(facts, block)
    listings = [
        {"label": listing.label, "lines": _lines(listing.text, listing.marked, names)}
        for listing in block.listings
    ]
    letters = [
        (symbol, location, [n for n in location.names if n in names])
        for symbol, location in zip(block.symbols, symbols.locations(facts, block.id), strict=True)
        if set(location.names) & set(names)
    ]
    return render("code.html", listings=listings, symbols=letters, legend=block.legend, model=title(model))


def _lines(text: str, marked: tuple[int, ...], names: tuple[str, ...]) -> list[tuple]:
    """Highlighted lines: number, HTML, whether it is marked, names of symbols it mentions."""
    plain = text.split("\n")
    lines = highlight(text, PythonLexer(stripnl=False), _formatter).rstrip("\n").split("\n")
    return [
        (i, Markup(line), i in marked, symbols.names_in(plain[i - 1], names))
        for i, line in enumerate(lines, 1)  # Pygments closes its tags at the end of each line
    ]


def inspector(state: State, shell: Shell) -> None:
    """Show the chosen block; only the tab in view is made."""

    def selection() -> tuple[str, str, int | None]:
        return state.model, state.select, state.layer

    def show(*_) -> None:
        selected = selection()
        slots = {"subject": subject(*selected) + part(*selected, state.part, state.step)}
        match state.tab:
            case "overview":
                slots["overview"] = overview(*selected, state.step, state.detail_level, bool(state.run_id))
            case "params":
                slots["parameters"] = parameters(*selected)
            case "code":
                slots["code"] = code(*selected)
        if selected == selection():  # of two quick clicks the slower answer must not be the last
            shell.fill(**slots)

    def announce(*_) -> None:
        block = _block(state.model, state.select, state.layer)
        state.notice = f"{block.title}, {block.total:,} parameters" if state.select else title(state.model)

    state.follow("inspector", show)
    state.follow("inspector.announcement", announce)
    show()

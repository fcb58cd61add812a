"""Everything the page shows of a block, joined from its YAML and the live module tree."""

from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from k3scope.diagrams.facts import code_listing
from k3scope.diagrams.facts.instances import instances, layer_of, of_all_layers, parameters
from k3scope.diagrams.facts.records import BlockFacts, ParameterRow, SymbolFact
from k3scope.diagrams.spec import block_spec, formula
from k3scope.diagrams.spec.block_spec import Block
from k3scope.diagrams.spec.citations import citation_of
from k3scope.diagrams.spec.shapes import Step
from k3scope.model import meta
from k3scope.model.accounting import Totals, count, totals
from k3scope.model.checkpoint.headers_model import HeadersModel
from k3scope.model.checkpoint.model_registry import headers_of
from k3scope.model.checkpoint.tensor_layout import Layout, TensorEntry
from k3scope.model.config import Config
from k3scope.model.count_notes import count_notes, files_of, folder_at
from k3scope.model.kimi_k3 import KimiK3

# what concrete shapes are shown for: batch, length, and one image of N patches that becomes M rows
STEP = Step()
MOST_BLOCKS = 4096  # blocks in one layer or in all that are described at a time
EXAMPLE = STEP.sizes | {"N": 64, "M": 16}
LINEAR_SIZES = {
    "also": "config.json of Kimi-Linear-48B-A3B-Instruct as at least five repositories quote it",
    "for": "its sizes, and which parts it lacks",
}


class Facts:
    """Facts of one model; `Facts.of(name)` builds each model once."""

    def __init__(
        self,
        name: str,
        model: KimiK3,
        comes_with_program: bool = False,
        path: Path | None = None,
        headers: HeadersModel | None = None,
    ):
        """`headers`: of a model that is nothing else here; what its files take is read off them."""
        self.name, self.headers = name, headers
        self._shipped, self._path = comes_with_program, path
        self.model = model
        self.config: Config = model.config
        self.sizes = self.config.sizes() | EXAMPLE
        self._blocks: dict[tuple[str, int | None], BlockFacts] = {}
        self.drawings: dict[tuple, dict] = {}  # filled by scene.graph

    @staticmethod
    @cache
    def of(name: str) -> "Facts":
        path = files_of(name)
        return Facts(name, meta(name), path is None, path, headers_of(name))

    @cached_property
    def totals(self) -> Totals:
        counted = totals(self.model, self.layout)
        return replace(counted, storage=self.headers.storage) if self.headers else counted

    @cached_property
    def layout(self) -> Layout:
        folder = folder_at(self._path)
        return Layout(self.model, self.config, folder and (lambda: folder.weight_map))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What must be known of the counted tensors and bytes: what no index was held against."""
        return () if self._shipped or self.headers else count_notes(self.layout, self._path)

    @cached_property
    def kinds(self) -> dict[str, int]:
        """Layers by kind of attention."""
        return {kind: self.config.kinds.count(kind) for kind in ("kda", "mla")}

    @cached_property
    def blocks(self) -> dict[str, Block]:
        """The blocks that this model has, by id, in the order of the view."""
        lacking = {i for i, b in block_spec.blocks().items() if not self.has(b.needs)}
        for group in tuple(lacking):
            lacking.update(block_spec.view("model").inside(group))
        built = {i: b.without(self.has) for i, b in block_spec.blocks().items() if i not in lacking}
        if self.config.family == "k3":
            return built
        # what pages say about K3 is not about this one, and its sizes come from elsewhere
        return {i: replace(b, others=(), sources=(*b.sources, LINEAR_SIZES)) for i, b in built.items()}

    @cached_property
    def view(self) -> block_spec.View:
        """The part of the view that this model has."""
        drawn = block_spec.view("model")
        io = {n.id for n in drawn.nodes if n.io and self.has(n.needs)}
        return drawn.of(lambda node: node in self.blocks or node in io, self.has)

    def has(self, needed: str) -> bool:
        """Whether the model has a part: a field of its Config that is neither none nor 0, or one of PARTS.

        It always has "".
        """
        if part := block_spec.PARTS.get(needed):
            return part(self.config)
        return not needed or bool(getattr(self.config, needed))

    def rows(self) -> list[ParameterRow]:
        """Leaf blocks that own parameters; their totals add up to the model's."""
        leaves = [b for b in self.blocks.values() if b.leaves and self.own_total(b)]
        return [self._row(b) for b in leaves]

    def instances(self, block: Block) -> list[str]:
        return instances(self.model, block)

    def per_instance(self, block: Block) -> int:
        """Parameters of one instance, counted on the tensors themselves."""
        return sum(p.numel() for p in parameters(self.model, block, self.instances(block)[0]).values())

    def own_total(self, block: Block) -> int:
        return self.per_instance(block) * len(self.instances(block))

    def group_total(self, group: str) -> int:
        table = self.blocks
        inside = self.view.inside(group)
        ids = [i for i in inside if i in table] if group != "kimi_k3" else list(table)
        return sum(self.own_total(table[i]) for i in ids if table[i].leaves)

    def layer_total(self, layer: int) -> int:
        return count(self.model.language_model.model.layers[layer])

    def shape(self, text: str, path: str = "", step: Step = STEP, context: bool = False) -> tuple[str, str]:
        """A shape expression as written, and with the numbers of this model; see `Step.symbolic`."""
        text = step.symbolic(text, context)
        values = self.sizes | step.sizes
        if "candidates" in text and path:
            values = values | {"candidates": self.model.get_submodule(path).candidates}
        if "candidates" in text and not path:
            return text, ""
        return text, "[" + ", ".join(str(n) for n in formula.shape(text, values)) + "]"

    def block(self, block_id: str, layer: int | None = None) -> BlockFacts:
        """A block in all its instances, or its instance in one layer. ValueError for an unknown block."""
        if layer is not None and layer not in self.block(block_id).layers:
            layer = None
        facts = self._blocks.get((block_id, layer))  # once: another thread may clear it
        if facts is None:
            if len(self._blocks) >= MOST_BLOCKS:
                self._blocks.clear()
            facts = self._blocks[block_id, layer] = self._describe(block_id, layer)
        return facts

    def own(self, block_id: str, layer: int | None = None) -> list[str]:
        """Parameters of a block and of all inside it, by full path."""
        table = self.blocks
        ids = table if block_id == "kimi_k3" else (block_id, *self.view.inside(block_id))
        leaves = [table[i] for i in ids if i in table]
        return [
            name
            for block in leaves
            for path in self.instances(block)
            if layer is None or layer_of(path) == layer
            for name in parameters(self.model, block, path)
        ]

    def _describe(self, block_id: str, layer: int | None) -> BlockFacts:
        table = self.blocks
        if block_id not in table:
            raise ValueError(f"{self.name} has no block {block_id!r}{block_spec.nearest(block_id, table)}")
        block = table[block_id]
        paths = [p for p in self.instances(block) if layer is None or layer_of(p) == layer]
        group = block_id in block_spec.groups()
        if layer is None:
            total = self.group_total(block_id) if group else self.own_total(block)
        else:
            total = sum(self.model.get_parameter(name).numel() for name in self.own(block_id, layer))
        each = {count(self.model.get_submodule(p)) for p in paths} if group else {self.per_instance(block)}
        layers = sorted({n for p in paths if (n := layer_of(p)) is not None})
        listings = code_listing.listings(self.model, block)
        return BlockFacts(
            id=block_id,
            title=block.title,
            kind=block.kind,
            sub=formula.fill_braces(block.sub, self.sizes),
            summary=block.summary or code_listing.summary_of(self.model, block),
            equation=block.equation.strip(),
            symbols=[self._symbol(s, block) for s in block.symbols],
            notes=formula.fill_braces(block.notes, self.sizes),
            others=list(block.others),
            sources=[citation_of(s) for s in block.sources],
            confidence=block.confidence,
            listings=listings,
            legend=self._legend(listings),
            group=group,
            params_formula="" if group else block.params,
            params_filled="" if group else formula.filled(block.params, self.sizes),
            per_instance=each.pop() if len(each) == 1 else None,
            count=len(paths),
            total=total,
            share=total / self.totals.total,
            where=self._where(layers, len(paths)) if layer is None else f"in layer {layer}",
            layers=layers,
            inputs=self.inputs(block_id),
            outputs=self.outputs(block_id, STEP, paths[-1]),
            tensors=self._tensors(block, paths[0], layer is not None),
        )

    def bytes(self, block_id: str, layer: int | None = None) -> int:
        """What a block takes in a checkpoint, all instances or the one of a layer."""
        return self.layout.storage(self.own(block_id, layer)).bytes

    def edge_label(self, edge: block_spec.Edge, step: Step = STEP) -> list[str]:
        """Symbolic and concrete shape of what flows along an edge, shapes of equal points once."""
        if edge.shape:
            return list(self.shape(edge.shape, "", step, edge.context))
        block = self.blocks[edge.source]
        shapes = [block.out[p] for p in edge.points or block.out if p in block.out] or list(
            block.out.values()
        )
        pairs = [self.shape(s, "", step, edge.context) for s in dict.fromkeys(shapes)]
        return [" ".join(symbolic for symbolic, _ in pairs), " ".join(concrete for _, concrete in pairs)]

    def inputs(self, block_id: str, step: Step = STEP) -> list[tuple[str, str, str]]:
        """What a block reads: title of the source, symbolic and concrete shape."""
        titles = {b.id: b.title for b in self.blocks.values()}
        titles |= {n.id: n.title for n in self.view.nodes if n.title}
        return [(titles[e.source], *self.edge_label(e, step)) for e in self._into(block_id)]

    def outputs(self, block_id: str, step: Step = STEP, path: str = "") -> list[tuple[str, str, str]]:
        """What a block gives: point, symbolic and concrete shape; of the instance at `path`."""
        block, edges = self.blocks[block_id], self._into(block_id)
        context = bool(edges) and all(e.context for e in edges)
        mix = self._mix(block, [path] if path else self.instances(block))
        return [(point, *self.shape(s, mix, step, context)) for point, s in block.out.items()]

    def _into(self, block_id: str) -> list[block_spec.Edge]:
        return [e for e in self.view.edges if e.target == block_id]

    def _row(self, block: Block) -> ParameterRow:
        each, many = self.per_instance(block), len(self.instances(block))
        own = [name for path in self.instances(block) for name in parameters(self.model, block, path)]
        return ParameterRow(
            id=block.id,
            title=block.title,
            kind=block.kind,
            formula=block.params,
            filled=formula.filled(block.params, self.sizes),
            per_instance=each,
            count=many,
            total=each * many,
            share=each * many / self.totals.total,
            bytes=self.layout.storage(own).bytes,
        )

    def _symbol(self, s: block_spec.Symbol, block: Block) -> SymbolFact:
        value = self.config.sizes().get(s.is_)
        shape = self.shape(s.shape, self._mix(block, self.instances(block))) if s.shape else ("", "")
        name = "" if s.is_ == "local" else s.is_
        return SymbolFact(s.symbol, s.text, name, "" if value is None else f"{value:,}", shape)

    def _mix(self, block: Block, paths: list[str]) -> str:
        """The last mix of this role: the one with the most candidates; "" for other blocks."""
        return paths[-1] if "AttnResMix" in block.of else ""

    def _legend(self, listings: list[code_listing.Listing]) -> list[tuple[str, str]]:
        sizes = self.config.sizes()
        names = [n for listing in listings for n in code_listing.config_names(listing.text)]
        return [(n, f"{sizes[n]:,}") for n in dict.fromkeys(names) if n in sizes]

    def _where(self, layers: list[int], many: int) -> str:
        if not layers:
            return "once in the model" if many == 1 else f"{many} times in the model"
        if len(layers) == self.config.layers:
            text = f"in all {len(layers)} layers"
        else:
            text = f"in {len(layers)} of {self.config.layers} layers: {ranges(layers)}"
        return text if many == len(layers) else f"{many // len(layers)} {text}"

    def _tensors(self, block: Block, path: str, named: bool) -> list[tuple[str, tuple[int, ...], int]]:
        entries = [self.layout.entries[p] for p in parameters(self.model, block, path)]
        return [_tensor(entry, named) for entry in entries]


def ranges(numbers: list[int]) -> str:
    """ "0-2, 4-6, 8" for a sorted list."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _tensor(entry: TensorEntry, named: bool) -> tuple[str, tuple[int, ...], int]:
    """Official name with L for the layer (its number when `named`) and E for the expert; shape; elements."""
    name = entry.name if named else of_all_layers(entry.name)
    if entry.experts:
        base, _, last = name.rpartition(".")
        name = f"{base}.E.{last}.weight, E = 0..{entry.experts - 1}"
    return name, entry.shape, entry.parameters

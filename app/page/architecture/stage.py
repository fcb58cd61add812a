"""Around the stage: the breadcrumb, the strip of layers, and which tab is open."""

from functools import lru_cache

from k3scope.app.link.state import State
from k3scope.app.models import title
from k3scope.app.page.architecture.layer_strip import MeasuredLayers
from k3scope.app.page.kit.shell import Shell
from k3scope.app.page.kit.templates import render
from k3scope.diagrams.facts import stack
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.operations import Op
from k3scope.diagrams.scene import details
from k3scope.diagrams.scene.block_contents import Tensor

VIEWS = (
    ("model", "Architecture"),
    ("lab", "Lab"),
    ("ledger", "Ledger"),
    ("cost", "Cost"),
    ("compare", "Compare"),
)

# groups of the stack, as a path counts them: "93 layers > 24 MLA layers"
LEVELS = {stack.LAYER: "layers", "kda": "KDA layers", "mla": "MLA layers", "latent_moe": "MoE layers"}


@lru_cache(maxsize=32)
def layer_cells(model: str, measured: MeasuredLayers | None = None) -> str:
    """One cell per layer, in the blocks of AttnRes; the last block may be a partial one.

    A run of the same model puts its numbers beside its cells; one of another model is only named.
    """
    config = Facts.of(model).config
    own = measured is not None and measured.model == model
    layers, each = stack.layers(config), config.block or config.layers
    blocks = [layers[i : i + each] for i in range(0, len(layers), each)]
    return render(
        "layers.html",
        blocks=blocks,
        each=each,
        attnres=bool(config.block),
        rows=measured.rows if own else (),
        other_model=measured.model if measured and not own else "",
        layers=config.layers,
    )


def _crumbs(state: State) -> list[tuple[str, str, bool]]:
    """From the model down to what is selected: title, where a click leads, whether it is the layer."""
    facts = Facts.of(state.model)
    parents = {node.id: node.parent for node in facts.view.nodes}
    below, block = [], state.select
    if state.part:
        below.append((_part_title(facts, block, state.part), f"select={block}&part={state.part}", False))
    while block in parents:
        below.append((_block_title(facts, block, state.layer), f"select={block}", False))
        block = parents[block]
    path = [(title(state.model), "select=", False), *reversed(below)]
    if state.layer is None:
        return path
    layer = (f"layer {state.layer}", f"select={stack.LAYER}", True)
    repeated = len(path) > 1 and path[1][1] == layer[1]  # the layer's own box has the crumb of the layer
    return [path[0], layer, *path[2 if repeated else 1 :]]


def _block_title(facts: Facts, block: str, layer: int | None) -> str:
    """A block as a step of the path: those of the stack by how many layers have them."""
    if layer is not None or block not in LEVELS:
        return facts.blocks[block].title
    return f"{len(facts.block(block).layers)} {LEVELS[block]}"


def _part_title(facts: Facts, block: str, part: str) -> str:
    match details.detail(facts, block, part):
        case Op(title=title):
            return title
        case Tensor(id=name):
            return name.removesuffix(".weight")
    return "arrow"


def stage(state: State, shell: Shell) -> None:
    """Keep the slots around the stage in step with the state."""

    def adjust_to_model(*_):
        layers = len(Facts.of(state.model).config.kinds)
        if state.layer is not None and state.layer >= layers:
            state.layer = None
        facts = Facts.of(state.model)
        if state.select not in facts.blocks:
            state.param.update(select="", part="")
        elif state.part and details.detail(facts, state.select, state.part) is None:
            state.part = ""
        show_layers()

    def show_layers(*_):
        shell.fill(layers=layer_cells(state.model, state.layer_rows))

    def keep_selection(*_):
        """What is selected in one layer stays selected in the next, or the nearest block visible there."""
        if state.layer is not None and state.select:
            state.select = stack.nearest_visible(Facts.of(state.model), state.select, state.layer)

    def show(*_):
        name = title(state.model)
        block = Facts.of(state.model).blocks[state.select].title if state.select else ""
        layer = "" if state.layer is None else f"layer {state.layer}"
        shell.fill(crumbs=render("crumbs.html", crumbs=_crumbs(state), layer=state.layer))
        shell.current = {
            "view": state.view,
            "tab": state.tab,
            "model": state.model,
            "select": state.select,
            "layer": state.layer,
            "title": " · ".join(filter(None, (block, layer, name, "k3scope"))),
        }

    def announce(*_):
        if state.layer is not None:
            state.notice = stack.layer(Facts.of(state.model).config, state.layer).name

    state.follow("stage.layers", adjust_to_model)
    state.follow("stage.layer_rows", show_layers)
    state.follow("stage.selection", keep_selection)
    state.follow("stage.announcement", announce)
    state.follow("stage", show)
    adjust_to_model()
    show()

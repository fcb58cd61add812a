"""Around the stage: the breadcrumb, the strip of layers, and which tab is open."""

from functools import cache

from app.html import render
from app.parts.header import title
from app.shell import Shell
from app.state import State
from diagrams import spec
from diagrams.facts import Facts
from model.presets import preset

VIEWS = (("model", "Architecture"), ("lab", "Lab"), ("ledger", "Ledger"))


@cache
def cells(model: str) -> str:
    """One cell per layer, in the blocks of AttnRes."""
    config = preset(model)
    layers = [
        {"index": i, "kind": kind, "dense": i < config.dense_layers, "text": _layer_text(config, i)}
        for i, kind in enumerate(config.kinds)
    ]
    blocks = [layers[i : i + config.block] for i in range(0, len(layers), config.block)]
    return render("layers.html", blocks=blocks)


def _layer_text(config, index: int) -> str:
    return f"{config.kinds[index].upper()}, {'dense FFN' if index < config.dense_layers else 'MoE'}"


def _crumbs(state: State) -> list[tuple[str, str]]:
    """From the whole model down to what is selected, each with where a click on it leads."""
    parents = {node.id: node.parent for node in spec.view("model").nodes}
    below, at = [], state.select
    while at in parents:
        below.append((spec.blocks()[at].title, f"select={at}"))
        at = parents[at]
    return [(title(state.model), "select="), *reversed(below)]


def stage(state: State, shell: Shell) -> None:
    """Keep the places around the stage in step with the state."""

    def strip_and_layer(*_):
        layers = len(preset(state.model).kinds)
        if state.layer is not None and state.layer >= layers:
            state.layer = None
        if state.select not in Facts.of(state.model).blocks:
            state.select = ""
        shell.layers = cells(state.model)

    def show(*_):
        name = title(state.model)
        block = spec.blocks()[state.select].title if state.select else ""
        shell.crumbs = render("crumbs.html", crumbs=_crumbs(state), layer=state.layer)
        shell.now = {
            "view": state.view,
            "tab": state.tab,
            "model": state.model,
            "select": state.select,
            "layer": state.layer,
            "title": " · ".join(filter(None, (block, name, "k3scope"))),
        }

    state.param.watch(strip_and_layer, "model")
    state.param.watch(show, ["view", "tab", "model", "select", "layer"])
    strip_and_layer()
    show()

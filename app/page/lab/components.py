"""The browser's side of the Lab, without the plots: selection, heads of plots, tokens, interventions."""

from typing import ClassVar

import param

from k3scope.app.page.kit.component import Component
from k3scope.app.page.kit.static import scripts, styles

_STYLE = [styles("lab")]


class SelectionBar(Component):
    """Tabs of the Lab, and the selection that all of its pictures share."""

    views = param.List([], doc="[key, title]")
    view = param.String("tokens")
    chosen = param.Dict(
        {"layers": [], "layer": None, "heads": 0, "head": 0, "token": 0, "tokens": 1, "text": "",
         "baselines": [], "baseline": ""}
    )  # fmt: skip

    _esm = scripts("dom", "lab_selection_bar")
    _stylesheets: ClassVar = _STYLE


class PlotHead(Component):
    """What stands over a plot; `file` is handed to the visitor as a download."""

    about = param.Dict({}, doc="title, source, badge, note, choices, choice, problem")
    file = param.Dict({}, doc="name, mime, data in base64, count that makes each one new")

    _esm = scripts("dom", "lab_plot_head")
    _stylesheets: ClassVar = _STYLE


class TokenStrip(Component):
    """Every token with its probability, and what the model expects after the chosen one."""

    tokens = param.Dict({}, doc="rows, vocab, summary, badge, first_generated; rows as of `lab_text.tokens`")
    next = param.Dict({}, doc="token, and rows of the candidates after it as of `lab_text.expected`")
    token = param.Integer(0)
    continuation = param.Dict(
        {"count": 0, "text": ""}, doc="count of tokens after the prompt, and a sentence on them"
    )
    busy = param.Boolean(False)

    _esm = scripts("dom", "lab_continuation", "lab_tokens")
    _stylesheets: ClassVar = _STYLE


class InterventionForm(Component):
    """The form for interventions and the list of those that were made."""

    options = param.Dict({}, doc="kinds, sites, layers, output, top_k")
    sources = param.List([], doc="[id, label] of runs to patch from")
    interventions = param.List([], doc="phrases, in the order in which they apply")
    likely = param.Dict({}, doc="what, layer and index that an untouched form starts from")
    undoable = param.Boolean(False)
    problem = param.String("")

    _esm = scripts("dom", "lab_interventions")
    _stylesheets: ClassVar = _STYLE

"""What one visitor looks at: the one object that every part of the page reads and writes."""

import param

from k3scope.app.link import query
from k3scope.diagrams.spec.shapes import MOST, PHASES, Step


def _default(key: str):
    return query.DEFAULTS[key]


class State(param.Parameterized):
    """The view of one visitor. Every field but the last five is part of the link."""

    model = param.String(_default("model"), doc="name of the model that is drawn")
    view = param.Selector(default=_default("view"), objects=list(query.VIEWS), doc="tab of the stage")
    select = param.String(_default("select"), doc="id of the selected block")
    part = param.String(_default("part"), doc="a tensor, operation or arrow of the selected block")
    open = param.List(list(_default("open")), item_type=str, doc="ids of the groups that are open")
    layer = param.Integer(_default("layer"), allow_None=True, doc="the layer that is meant, if one is")

    phase = param.Selector(default=_default("phase"), objects=list(PHASES), doc="step that shapes are for")
    types = param.Boolean(_default("types"), doc="whether arrows say the type of what they carry")
    B = param.Integer(_default("B"), bounds=(1, MOST["B"]), doc="sequences that shapes are for")
    T = param.Integer(_default("T"), bounds=(1, MOST["T"]), doc="tokens that shapes are for")

    ran = param.String(_default("ran"), doc="name of the model that ran (`with` in the link)")
    weights = param.String(_default("weights"), doc="short hash of the weights that ran")
    prompt = param.String(_default("prompt"), allow_None=True, doc="None: nothing typed yet; '' is a prompt")
    more = param.List(list(_default("more")), item_type=int, doc="ids of tokens added to the prompt")
    run = param.String(_default("run"), doc="id of a stored run")

    changes = param.String(_default("changes"), doc="interventions on the run, as canonical JSON (`do`)")
    against = param.String(_default("against"), doc="run to compare with: its id, or 'plain'")

    lab = param.String(_default("lab"), doc="view of the Lab, and its layer where that is not `layer`")
    plots = param.List(list(_default("plots")), item_type=str, doc="pictures chosen in the Lab, by key")
    tab = param.Selector(default=_default("tab"), objects=list(query.TABS), doc="tab of the inspector")
    token = param.Integer(_default("token"), allow_None=True, doc="index of the chosen token")
    head = param.Integer(_default("head"), allow_None=True, doc="index of the chosen head")
    compare = param.String(_default("compare"), doc="name of the model compared with")
    at = param.String(_default("at"), doc="the point that the Cost view is at")
    depth = param.Selector(default=_default("depth"), objects=list(query.DEPTHS), doc="depth of the text")
    tour = param.Integer(_default("tour"), allow_None=True, doc="stop of the guided tour, from 1; None: off")

    camera = param.String(_default("camera"), doc="where the drawing is looked at; '' shows its width")

    underway = param.Dict(
        {}, doc="what a run on its way will change in the link; the address says it already"
    )
    dark = param.Boolean(False, doc="what the browser shows now; figures follow it")
    problems = param.List([], item_type=str, doc="parts of the link that could not be read, as sentences")
    measured = param.Parameter(None, doc="what the run on show says of each layer; see app.parts.strip")
    notice = param.String("", doc="said to screen readers when it changes")

    def linked(self) -> dict:
        """The fields that make up the link."""
        return {name: getattr(self, name) for name in query.DEFAULTS}

    @property
    def step(self) -> Step:
        return Step(self.B, self.T, self.phase, self.types)

    def toggle(self, group: str) -> None:
        """Open a group that is closed, close one that is open."""
        opened = [g for g in self.open if g != group]
        self.open = opened if group in self.open else [*self.open, group]

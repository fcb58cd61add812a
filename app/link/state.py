"""What one visitor looks at: the one object that every part of the page reads and writes."""

from typing import ClassVar

import param

from k3scope.app.link import fields, followers
from k3scope.diagrams.spec.shapes import MOST, PHASES, Step


def _default(key: str):
    return fields.DEFAULTS[key]


class State(followers.Followed):
    """The view of one visitor. Every field but the last five is part of the link."""

    followers: ClassVar = followers.STATE

    model = param.String(_default("model"), doc="name of the model that is drawn")
    view = param.Selector(default=_default("view"), objects=list(fields.VIEWS), doc="tab of the stage")
    select = param.String(_default("select"), doc="id of the selected block")
    part = param.String(_default("part"), doc="a tensor, operation or arrow of the selected block")
    open = param.List(list(_default("open")), item_type=str, doc="ids of the groups that are open")
    layer = param.Integer(_default("layer"), allow_None=True, doc="the layer that is meant, if one is")

    phase = param.Selector(default=_default("phase"), objects=list(PHASES), doc="step that shapes are for")
    types = param.Boolean(_default("types"), doc="whether arrows say the type of what they carry")
    B = param.Integer(_default("B"), bounds=(1, MOST["B"]), doc="sequences that shapes are for")
    T = param.Integer(_default("T"), bounds=(1, MOST["T"]), doc="tokens that shapes are for")

    run_model = param.String(_default("run_model"), doc="name of the model that ran (`with` in the link)")
    weights = param.String(
        _default("weights"), doc="short hash of the model that ran: its weights, config, tokenizer"
    )
    prompt = param.String(_default("prompt"), allow_None=True, doc="None: nothing typed yet; '' is a prompt")
    generated_ids = param.List(
        list(_default("generated_ids")), item_type=int, doc="ids of tokens added to the prompt"
    )
    run_id = param.String(_default("run_id"), doc="id of a stored run")

    interventions = param.String(
        _default("interventions"), doc="interventions on the run, as canonical JSON (`do`)"
    )
    baseline = param.String(_default("baseline"), doc="run to compare with: its id, or 'plain'")

    lab_view = param.String(
        _default("lab_view"), doc="view of the Lab, and its layer where that is not `layer`"
    )
    plots = param.List(list(_default("plots")), item_type=str, doc="pictures chosen in the Lab, by key")
    tab = param.Selector(default=_default("tab"), objects=list(fields.TABS), doc="tab of the inspector")
    token = param.Integer(_default("token"), allow_None=True, doc="index of the chosen token")
    head = param.Integer(_default("head"), allow_None=True, doc="index of the chosen head")
    compare = param.String(_default("compare"), doc="name of the model compared with")
    cost_point = param.String(_default("cost_point"), doc="the point that the Cost view is at")
    detail_level = param.Selector(
        default=_default("detail_level"), objects=list(fields.DETAIL_LEVELS), doc="depth of the text"
    )
    tour = param.Integer(_default("tour"), allow_None=True, doc="stop of the guided tour, from 1; None: off")

    camera = param.String(_default("camera"), doc="where the drawing is looked at; '' shows its width")

    pending = param.Dict({}, doc="what a run on its way will change in the link; the address says it already")
    dark = param.Boolean(False, doc="what the browser shows now; figures follow it")
    problems = param.List([], item_type=str, doc="parts of the link that could not be read, as sentences")
    layer_rows = param.Parameter(
        None, doc="what the run on show says of each layer; see page/architecture/layer_strip.py"
    )
    notice = param.String("", doc="said to screen readers when it changes")

    def linked(self) -> dict:
        """The fields that make up the link."""
        return {name: getattr(self, name) for name in fields.DEFAULTS}

    @property
    def step(self) -> Step:
        return Step(self.B, self.T, self.phase, self.types)

    def toggle(self, group: str) -> None:
        """Open a group that is closed, close one that is open."""
        opened = [g for g in self.open if g != group]
        self.open = opened if group in self.open else [*self.open, group]

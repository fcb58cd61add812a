"""Which part of the page follows which field: the one table, and the way to subscribe by it.

A row is named as its place on the page: `stage`, and after a dot what of it. Every field of the view state
has a follower, every row is used by exactly one part of the code, and nothing else subscribes: a test holds
that.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import param

from k3scope.app.link.fields import DEFAULTS

STEP = ("phase", "B", "T", "types")  # what shapes are shown for
STATE: dict[str, tuple[str, ...]] = {
    "compare": ("view", "model"),
    "compare.drawing": ("open", *STEP),
    "compare.other": ("compare",),
    "compare.selection": ("select",),
    "controls": STEP,
    "cost": ("view", "model", "cost_point"),
    "diagram": ("model", "open", "layer", *STEP),
    "diagram.camera": ("camera",),
    "diagram.selection": ("select", "part"),
    "diagram.theme": ("dark",),
    "dock.token": ("token", "view"),
    "figure.theme": ("dark",),
    "header": ("model",),
    "header.problems": ("problems",),
    "history": (*DEFAULTS, "pending"),
    "inspector": ("model", "select", "part", "layer", "tab", "phase", "B", "T", "detail_level", "run_id"),
    "inspector.announcement": ("select",),
    "lab": ("view", "lab_view", "plots", "layer", "head", "token", "model", "dark"),
    "lab.images": ("view", "token", "dark"),
    "ledger": ("view", "model"),
    "live": ("tab", "select", "layer", "model", "token"),
    "live.chosen_layer": ("layer", "model"),
    "session": ("prompt", "generated_ids", "run_model", "run_id", "interventions"),
    "session.baseline": ("baseline",),
    "shell.notice": ("notice",),
    "stage": ("view", "tab", "model", "select", "part", "layer"),
    "stage.announcement": ("layer",),
    "stage.layers": ("model",),
    "stage.layer_rows": ("layer_rows",),
    "stage.selection": ("layer",),
    "tour": ("tour", "model"),
}
SESSION: dict[str, tuple[str, ...]] = {
    "dock.attachments": ("images", "received", "model"),
    "dock.progress": ("busy", "progress", "problem"),
    "dock.result": ("result",),
    "lab": ("result", "baseline", "problem"),
    "lab.busy": ("busy",),
    "lab.images": ("result",),
    "lab.interventions": ("result",),
    "layer_strip": ("result",),
    "live": ("result",),
    "owner": ("result",),
}


class Followed(param.Parameterized):
    """Fields that parts of the page follow, by a row of the table."""

    followers: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def follow(self, row: str, react: Callable) -> None:
        """Call `react` with the events whenever fields of this row have changed, once for one update."""
        self.param.watch(react, list(self.followers[row]))

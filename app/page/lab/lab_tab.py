"""The Lab: what the last run did inside, in five views that look at one token, layer and head."""

import panel as pn

from k3scope.app.examples import examples
from k3scope.app.page.kit.static import styles
from k3scope.app.page.lab.image_views import later
from k3scope.app.page.lab.lab_pictures import Room
from k3scope.app.runs.run_session import Runs

EMPTY = """<h2>Nothing has run yet</h2>
<p>After a run the Lab shows, token by token and layer by layer: what the model expected, to which experts the
tokens went, what its linear attention remembers, what its full attention reads, and from which depth each mix
takes. Type a prompt below, or start with an example.</p>"""


def lab(runs: Runs) -> pn.Column:
    """The Lab of a visitor; its figures are built when it is first looked at after a run."""
    place = pn.Column(sizing_mode="stretch_width", margin=0)
    empty = pn.Column(
        pn.pane.HTML(EMPTY, stylesheets=[styles("lab")], margin=0),
        example_button(runs),
        margin=(16, 20),
        sizing_mode="stretch_width",
    )
    rooms: list[Room] = []

    def fill() -> None:
        if runs.run is None:
            place.objects = [empty]
            return
        if not rooms:
            rooms.append(Room(runs))
        rooms[0].look()
        if place.objects != [rooms[0].view]:
            place.objects = [rooms[0].view]

    def show(*_) -> None:
        if runs.state.view == "lab":
            later(fill)

    runs.param.watch(show, ["run", "reference", "problem"])
    runs.state.param.watch(show, ["view", "lab", "plots", "layer", "head", "token", "model", "dark"])
    if runs.state.view == "lab":
        fill()
    return place


def example_button(runs: Runs) -> pn.widgets.Button:
    """Runs the first example."""
    first = examples()[0]
    button = pn.widgets.Button(name=f"Run an example: {first.name}", button_type="primary", margin=(8, 0))
    button.stylesheets = [styles("lab")]
    button.on_click(lambda _event: runs.start(runs.model, first.prompt))
    return button

"""The Lab: what the last run did inside, in five views that look at one token, layer and head."""

import panel as pn

from k3scope.app.examples import examples
from k3scope.app.page.kit.events import dispatch
from k3scope.app.page.kit.static import styles
from k3scope.app.page.lab.lab_pictures import LabPictures
from k3scope.app.runs.run_session import RunSession

EMPTY = """<h2>Nothing has run yet</h2>
<p>After a run the Lab shows, token by token and layer by layer: what the model expected, to which experts the
tokens went, what its linear attention remembers, what its full attention reads, and from which depth each mix
takes. Type a prompt below, or start with an example.</p>"""


def lab(session: RunSession) -> pn.Column:
    """The Lab of a visitor; its figures are built when it is first looked at after a run."""
    column = pn.Column(sizing_mode="stretch_width", margin=0)
    empty = pn.Column(
        pn.pane.HTML(EMPTY, stylesheets=[styles("lab")], margin=0),
        example_button(session),
        margin=(16, 20),
        sizing_mode="stretch_width",
    )
    built: list[LabPictures] = []

    def fill() -> None:
        if session.result is None:
            column.objects = [empty]
            return
        if not built:
            built.append(LabPictures(session))
        built[0].update()
        if column.objects != [built[0].view]:
            column.objects = [built[0].view]

    def show(*_) -> None:
        if session.state.view == "lab":
            dispatch(fill)

    session.follow("lab", show)
    session.state.follow("lab", show)
    if session.state.view == "lab":
        fill()
    return column


def example_button(session: RunSession) -> pn.widgets.Button:
    """A button that runs the first example."""
    first = examples()[0]
    button = pn.widgets.Button(name=f"Run an example: {first.name}", button_type="primary", margin=(8, 0))
    button.stylesheets = [styles("lab")]
    button.on_click(lambda _event: dispatch(lambda: session.start(session.model, first.prompt)))
    return button

"""One picture of the Lab on the page: a head with text and menus over one plot."""

import base64
from collections.abc import Callable
from functools import partial

import panel as pn

from k3scope.app.lab.lab_views import Slot
from k3scope.app.lab.picture_file import MIME, file_of
from k3scope.app.link.state import State
from k3scope.app.page.kit.background import Background
from k3scope.app.page.lab.components import PlotHead
from k3scope.app.page.lab.heatmap import Heatmap
from k3scope.app.pool.task import Task
from k3scope.model.measure.picture import Picture


class PlotPane:
    """Shows one picture of a slot at a time; reports what is chosen, saves it as it is shown."""

    def __init__(
        self, state: State, on_choice: Callable[[str], None], on_tap: Callable[[Picture, int, int], None]
    ):
        self._state, self._on_choice = state, on_choice
        self.head = PlotHead(self._on_message)
        self._files = Background(self._note)
        self.heatmap = Heatmap(lambda row, column: on_tap(self.heatmap.picture, row, column))
        self._pane = pn.pane.Bokeh(self.heatmap.plot, sizing_mode="stretch_width", margin=0)
        self.view = pn.Column(self.head, self._pane, sizing_mode="stretch_width", margin=0, visible=False)
        self.heatmap.colour(state.dark)

    def offer(self, slot: Slot, choice: str) -> None:
        """Take the width and the choices of a slot."""
        self.view.styles = {"flex": "1 1 400px" if slot.half else "1 1 100%", "min-width": "min(100%, 360px)"}
        self.view.visible = True
        choices = [[c.key, c.label] for c in slot.choices]
        self.head.about = {**self.head.about, "choices": choices, "choice": choice}

    def show(self, picture: Picture, badge: dict) -> None:
        self.heatmap.show(picture)
        self._pane.visible = True
        self.head.about = {
            **self.head.about,
            "title": picture.title,
            "source": picture.source.replace(", random weights", ""),
            "badge": badge,
            "note": picture.caption,
            "problem": "",
        }

    def refuse(self, why: str) -> None:
        """A sentence where the picture would be."""
        self._pane.visible = False
        title = self.head.about.get("title", "")
        self.head.about = {**self.head.about, "title": title, "note": "", "problem": why}

    def hide(self) -> None:
        self.view.visible = False

    def _on_message(self, data: dict) -> None:
        match data:
            case {"choice": str(key)}:
                self._on_choice(key)
            case {"save": str(file_format)} if file_format in MIME and self.heatmap.picture is not None:
                self._save(file_format)

    def _save(self, file_format: str) -> None:
        """Hand the picture to the browser, when the pool has made a file of it."""
        picture, dark = self.heatmap.picture, self._state.dark
        task = Task(f"The {file_format}", file_of, (picture, file_format, dark), visitor=id(self._state))
        self._files.start(task, partial(self._send, MIME[file_format]), self._note)

    def _note(self, text: str) -> None:
        """A sentence under the title: how a file stands, or why there is none; "" for the picture's own."""
        self.head.about = {**self.head.about, "note": text or self.heatmap.picture.caption}

    def _send(self, mime: str, made: tuple[str, bytes]) -> None:
        """The count makes the same file a change, so it is saved again."""
        name, content = made
        encoded = base64.b64encode(content).decode()
        count = self.head.file.get("count", 0) + 1
        self.head.file = {"name": name, "mime": mime, "data": encoded, "count": count}

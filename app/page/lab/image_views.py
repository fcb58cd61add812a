"""The Lab's pictures of an image: what the tower reads, its patches, its rows, and who attends to them."""

import numpy as np
import panel as pn

from k3scope.app.page.kit import templates
from k3scope.app.page.kit.static import styles
from k3scope.app.page.lab.image_tiles import Strip, Tile, pixel_tile, strip, tile
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_session import RunSession
from k3scope.model.measure.image_readings import ImageReading


def images(session: RunSession) -> pn.Column:
    """Pictures of the images of the run on show; nothing for a run without any."""
    place = pn.Column(sizing_mode="stretch_width", margin=0)
    built: list[ImagePictures] = []

    def fill() -> None:
        if session.result is None or not session.result.images:
            place.objects = []
            return
        if not built:
            built.append(ImagePictures(session))
        built[0].show(session.result)
        if not place.objects:
            place.objects = [built[0].view]

    def show(*_) -> None:
        if session.state.view == "lab":
            later(fill)

    session.follow("lab.images", show)
    session.state.follow("lab.images", show)
    show()
    return place


class ImagePictures:
    """Four pictures of one image, the strip of attention over tokens, and the sentences over them."""

    def __init__(self, session: RunSession):
        self._session, self._run = session, None
        self._which, self._stage, self._layer = (
            _select(name, width) for name, width in (("Image", 90), ("Patches", 160), ("Attention", 120))
        )
        self._words = pn.pane.HTML(stylesheets=[styles("lab")], sizing_mode="stretch_width", margin=0)
        self._pixels = pixel_tile("What the tower reads")
        self._patches = tile("Patches", "amount", "patch")
        self._rows = tile("Rows of the text", "amount", "row")
        self._read = tile("Attention on the rows", "share", "row")
        self._strip = strip(self._tapped)
        tiles = [self._pixels, self._patches, self._rows, self._read]
        self.view = pn.Column(
            self._words,
            _wrapping(self._which, self._stage, self._layer),
            _wrapping(*(shown.view for shown in tiles)),
            pn.pane.Bokeh(self._strip.plot, sizing_mode="stretch_width", margin=0),
            sizing_mode="stretch_width",
            margin=(12, 0, 0, 0),
        )
        self._drawn: list[Tile | Strip] = [*tiles, self._strip]
        for select in (self._which, self._stage, self._layer):
            select.param.watch(lambda *_: later(self._draw), "value")

    def show(self, run: RunResult) -> None:
        if run is not self._run:
            self._run = None  # the selects change one by one: nothing is drawn between
            found = run.images[0]
            stages = {"embedded": 0} | {f"after block {n}": n + 1 for n in range(len(found.stages) - 1)}
            self._which.param.update(options={f"{n + 1}": n for n in range(len(run.images))}, value=0)
            self._which.visible = len(run.images) > 1
            self._stage.param.update(options=stages, value=len(found.stages) - 1)
            layers = list(found.attended)
            self._layer.param.update(options={f"MLA layer {n}": n for n in layers}, value=layers[-1])
            self._run = run
        self._draw()

    def _draw(self) -> None:
        if self._run is None:
            return
        run, found, layer = self._run, self._found, self._layer.value
        token = self._session.state.token
        patches, attended = found.stages[self._stage.value], found.read_by(layer, token)
        self._pixels.show(found.pixels, patches.shape, run.config.vision.merge, found.inside)
        self._patches.show(patches)
        self._rows.show(found.rows)
        self._read.show(attended)
        self._strip.show({n: at.share for n, at in found.attended.items()}, found.readers)
        self._strip.mark(list(found.attended).index(layer), token)
        self._words.object = _words(run, found, layer, token, patches)
        for drawn in self._drawn:
            drawn.colour(self._session.state.dark)

    @property
    def _found(self) -> ImageReading:
        return self._run.images[self._which.value]

    def _tapped(self, event) -> None:
        layers, token = list(self._found.attended), round(event.x)
        if 0 <= (row := round(event.y)) < len(layers) and token in self._found.readers:
            self._layer.value = layers[row]
            self._session.state.token = token


def later(work) -> None:
    """Change Bokeh's models under the document's lock, whichever thread asks."""
    pn.state.execute(work, schedule=True)


def _select(name: str, width: int) -> pn.widgets.Select:
    return pn.widgets.Select(name=name, width=width, margin=0, stylesheets=[styles("panel_widgets")])


def _wrapping(*parts) -> pn.Row:
    """Side by side, in several lines where the page is narrow. Panel's FlexBox leaves figures blank."""
    return pn.Row(*parts, stylesheets=[":host { flex-wrap: wrap; gap: 8px 16px; }"], margin=(4, 0))


def _words(run: RunResult, found: ImageReading, layer: int, token: int | None, patches: np.ndarray) -> str:
    chosen, share = found.readers == token, found.attended[layer].share
    return templates.render(
        "image.html",
        title=_title(run, found),
        badge=_badge(run),
        run=run,
        found=found,
        vit=run.config.vision,
        patches=patches,
        down=patches.shape[0],
        across=patches.shape[1],
        layer=layer,
        token=token if chosen.any() else None,
        share=share[chosen].item() if chosen.any() else share.mean(),
        attended=found.read_by(layer, token),
    )


def _title(run: RunResult, found: ImageReading) -> str:
    if len(run.images) == 1:
        return "The image"
    return f"Image {run.images.index(found) + 1} of {len(run.images)}"


def _badge(run: RunResult) -> str:
    if run.random_weights:
        return "random weights"
    return "the vision tower has random weights" if run.random_tower else ""

"""The Lab's pictures of an image: what the tower reads, its patches, its rows, and who attends to them."""

import numpy as np
import panel as pn

from k3scope.app.page.kit import templates
from k3scope.app.page.kit.events import dispatch
from k3scope.app.page.kit.static import styles
from k3scope.app.page.lab.attention_strip import AttentionStrip, attention_strip
from k3scope.app.page.lab.image_tiles import Tile, pixel_tile, tile
from k3scope.app.runs.run_result import RunResult
from k3scope.app.runs.run_session import RunSession
from k3scope.model.measure.image_readings import ImageReading
from k3scope.model.measure.not_finite import number as value
from k3scope.model.measure.not_finite import of_many


def image_pictures(session: RunSession) -> pn.Column:
    """Pictures of the images of the run on show; nothing for a run without any."""
    column = pn.Column(sizing_mode="stretch_width", margin=0)
    built: list[ImagePictures] = []

    def fill() -> None:
        if session.result is None or not session.result.images:
            column.objects = []
            return
        if not built:
            built.append(ImagePictures(session))
        built[0].show(session.result)
        if not column.objects:
            column.objects = [built[0].view]

    def show(*_) -> None:
        if session.state.view == "lab":
            dispatch(fill)

    session.follow("lab.images", show)
    session.state.follow("lab.images", show)
    show()
    return column


class ImagePictures:
    """Four pictures of one image, the strip of attention over tokens, and the sentences over them."""

    def __init__(self, session: RunSession):
        self._session = session
        self._result: RunResult | None = None
        self._image_menu, self._stage_menu, self._layer_menu = menus = [
            _menu(name, width) for name, width in (("Image", 90), ("Patches", 160), ("Attention", 120))
        ]
        self._text = pn.pane.HTML(stylesheets=[styles("lab")], sizing_mode="stretch_width", margin=0)
        self._pixels = pixel_tile("What the tower reads")
        self._patches = tile("Patches", "amount", "patch")
        self._rows = tile("Rows of the text", "amount", "row")
        self._attention = tile("Attention on the rows", "share", "row")
        self._strip = attention_strip(self._on_tap)
        tiles = [self._pixels, self._patches, self._rows, self._attention]
        self.view = pn.Column(
            self._text,
            _wrapping(*menus),
            _wrapping(*(shown.view for shown in tiles)),
            pn.pane.Bokeh(self._strip.plot, sizing_mode="stretch_width", margin=0),
            sizing_mode="stretch_width",
            margin=(12, 0, 0, 0),
        )
        self._pictures: list[Tile | AttentionStrip] = [*tiles, self._strip]
        for menu in menus:
            menu.param.watch(lambda *_: dispatch(self._draw), "value")

    def show(self, result: RunResult) -> None:
        if result is not self._result:
            self._result = None  # the menus change one by one: nothing is drawn between
            first = result.images[0]
            stages = {"embedded": 0} | {f"after block {n}": n + 1 for n in range(len(first.stages) - 1)}
            numbers = {f"{n + 1}": n for n in range(len(result.images))}
            self._image_menu.param.update(options=numbers, value=0)
            self._image_menu.visible = len(numbers) > 1
            self._stage_menu.param.update(options=stages, value=len(first.stages) - 1)
            layers = list(first.attended)
            self._layer_menu.param.update(options={f"MLA layer {n}": n for n in layers}, value=layers[-1])
            self._result = result
        self._draw()

    def _draw(self) -> None:
        if self._result is None:
            return
        result, image, layer = self._result, self._image, self._layer_menu.value
        token = self._session.state.token
        patches, attended = image.stages[self._stage_menu.value], image.read_by(layer, token)
        self._pixels.show(image.pixels, patches.shape, result.config.vision.merge, image.inside)
        self._patches.show(patches)
        self._rows.show(image.rows)
        self._attention.show(attended)
        shares = {n: of_layer.share for n, of_layer in image.attended.items()}
        self._strip.show(shares, image.readers)
        self._strip.mark(list(shares).index(layer), token)
        self._text.object = image_text(result, image, layer, token, patches)
        for picture in self._pictures:
            picture.colour(self._session.state.dark)

    @property
    def _image(self) -> ImageReading:
        return self._result.images[self._image_menu.value]

    def _on_tap(self, event) -> None:
        """A click in the strip chooses the token of its column and the layer of its row."""
        layers, token = list(self._image.attended), round(event.x)
        if 0 <= (row := round(event.y)) < len(layers) and token in self._image.readers:
            self._layer_menu.value = layers[row]
            self._session.state.token = token


def _menu(name: str, width: int) -> pn.widgets.Select:
    return pn.widgets.Select(name=name, width=width, margin=0, stylesheets=[styles("panel_widgets")])


def _wrapping(*parts) -> pn.Row:
    """Side by side, in several lines where the page is narrow. Panel's FlexBox leaves figures blank."""
    return pn.Row(*parts, stylesheets=[":host { flex-wrap: wrap; gap: 8px 16px; }"], margin=(4, 0))


def image_text(
    result: RunResult, image: ImageReading, layer: int, token: int | None, patches: np.ndarray
) -> str:
    """The sentences over the pictures, as HTML; of a token, if it is text after the image."""
    chosen, share = image.readers == token, image.attended[layer].share
    return templates.render(
        "image.html",
        title=_title(result, image),
        badge=_badge(result),
        result=result,
        image=image,
        vit=result.config.vision,
        patches=patches,
        down=patches.shape[0],
        across=patches.shape[1],
        layer=layer,
        token=token if chosen.any() else None,
        share=share[chosen].item() if chosen.any() else share.mean(),
        attended=image.read_by(layer, token),
        ends=_ends,
        value=value,
    )


def _ends(values: np.ndarray, scale: float = 1.0, unit: str = "") -> str:
    """The least and the largest of the values, in words what is not finite."""
    bad = of_many(int((~np.isfinite(values)).sum()), values.size, "values")
    finite = values[np.isfinite(values)] * scale
    if not finite.size:
        return "no finite value"
    ends = f"{finite.min():.3g}{unit} to {finite.max():.3g}{unit}"
    return f"{ends} ({bad.rstrip('.')})" if bad else ends


def _title(result: RunResult, image: ImageReading) -> str:
    if len(result.images) == 1:
        return "The image"
    return f"Image {result.images.index(image) + 1} of {len(result.images)}"


def _badge(result: RunResult) -> str:
    if result.random_weights:
        return "random weights"
    return "the vision tower has random weights" if result.random_tower else ""

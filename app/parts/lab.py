"""The Lab: pictures of the last run over all layers, tokens and experts."""

from html import escape

import numpy as np
import panel as pn

from app.parts.dock import EXAMPLES, read
from app.parts.images import images
from app.parts.plots import LABELLED, Heat, heat, layer_labels
from app.runner import Run
from app.runs import Runs
from model.measure.depth import Mix

EMPTY = """<h2>Nothing has run yet</h2>
<p>After a run the Lab shows, for every layer: how large the running sum is at each token, to which experts
the tokens went, and from which depth each mix reads. Type a prompt below, or start with an example.</p>"""
SUM = """RMS of what each layer returns, by layer and token. It restarts every {block} layers, at the start of
an AttnRes block. Largest {largest:.4g}, after layer {layer} at token {token}."""
EXPERTS = """How many tokens each routed expert got, by layer. Every row sums to {tokens:,} × {top_k} =
{sum:,}: each token goes to {top_k} of {experts} experts. {unused:,} of {all:,} experts got none. The shared
experts see every token and are not counted."""
MIXES = """Mean weight over the tokens that each AttnRes mix gives to the stored block sums and to the running
sum. A row sums to 1; an empty cell is not there to be read yet."""


def lab(runs: Runs) -> pn.Column:
    """The Lab of a visitor; its figures are built when it is first looked at after a run."""
    place = pn.Column(sizing_mode="stretch_width", margin=0)
    empty = pn.Column(
        pn.pane.HTML(EMPTY, stylesheets=[read("lab.css")], margin=0),
        example_button(runs),
        margin=(16, 20),
        sizing_mode="stretch_width",
    )
    pictures: list[Pictures] = []

    def fill() -> None:
        if runs.run is None:
            place.objects = [empty]
            return
        if not pictures:
            pictures.append(Pictures(runs))
        pictures[0].show(runs.run)
        if place.objects != [pictures[0].view]:
            place.objects = [pictures[0].view]

    def show(*_) -> None:
        if runs.state.view == "lab":
            later(fill)

    runs.param.watch(show, "run")
    runs.state.param.watch(show, "view")
    if runs.state.view == "lab":
        fill()
    return place


def example_button(runs: Runs) -> pn.widgets.Button:
    """Runs the first example."""
    label, prompt = EXAMPLES[0]
    button = pn.widgets.Button(name=f"Run an example: {label}", button_type="primary", margin=(8, 0))
    button.stylesheets = [read("lab.css")]
    button.on_click(lambda _event: runs.start(runs.model, prompt))
    return button


class Pictures:
    """The three figures and the sentences over them."""

    def __init__(self, runs: Runs):
        self._runs, self._shown = runs, None
        self._residual = heat("token", "RMS", "0.0000")
        self._routing = heat("expert", "tokens", "0")
        self._depth = heat("source", "weight", "0.000")
        self._words = [_words() for _ in range(3)]
        self._plots = (self._residual, self._routing, self._depth)
        parts = [
            p for words, drawn in zip(self._words, self._plots, strict=True) for p in (words, _pane(drawn))
        ]
        self.view = pn.Column(images(runs), *parts, sizing_mode="stretch_width", margin=(4, 20, 20, 20))
        self._residual.plot.on_event("tap", self._tapped)
        runs.state.param.watch(lambda *_: later(self._mark), ["token", "layer", "model"])
        runs.state.param.watch(lambda *_: later(self._colour), "dark")
        self._colour()

    def show(self, run: Run) -> None:
        if run is self._shown:
            return
        self._shown = run
        found, config = run.readings, run.config
        tokens = [piece.text for piece in run.pieces] if len(run.pieces) <= LABELLED else []
        self._residual.show(found.residual.rms, layer_labels(config, found.residual.layers), tokens)
        first = min(found.routing)
        self._routing.show(_narrow(found.counts), layer_labels(config, found.routing), [], (first, 0))
        self._depth.show(*_depth(found.mixes))
        for words, text in zip(self._words, _texts(run), strict=True):
            words.object = text
        self._mark()

    def _colour(self) -> None:
        for drawn in self._plots:
            drawn.colour(self._runs.state.dark)

    def _mark(self) -> None:
        state, run = self._runs.state, self._shown
        layer = state.layer if state.model == run.spec.model else None
        self._residual.mark(layer, state.token)
        self._routing.mark(layer)

    def _tapped(self, event) -> None:
        """A click chooses the token, and the layer too when the drawn model is the one that ran."""
        state, run = self._runs.state, self._shown
        token, layer = round(event.x), round(event.y)
        if 0 <= token < len(run.pieces) and 0 <= layer < run.config.layers:
            same = state.model == run.spec.model
            state.param.update(token=token, **({"layer": layer} if same else {}))


def later(work) -> None:
    """Change Bokeh's models under the document's lock, whichever thread asks."""
    pn.state.execute(work, schedule=True)


def _words() -> pn.pane.HTML:
    return pn.pane.HTML(stylesheets=[read("lab.css")], sizing_mode="stretch_width", margin=(12, 0, 0, 0))


def _pane(drawn: Heat) -> pn.pane.Bokeh:
    return pn.pane.Bokeh(drawn.plot, sizing_mode="stretch_width", margin=0)


def _narrow(counts: np.ndarray) -> np.ndarray:
    return counts.astype(np.uint16 if counts.max(initial=0) < 2**16 else np.uint32)


def _depth(mixes: tuple[Mix, ...]) -> tuple[np.ndarray, list[str], list[str]]:
    """Mean weights [mixes, stored sums + running sum]; what a mix cannot read stays empty."""
    stored = max(len(mix.mean) for mix in mixes) - 1
    image = np.full((len(mixes), stored + 1), np.nan, dtype=np.float32)
    for row, mix in zip(image, mixes, strict=True):
        row[: len(mix.mean) - 1] = mix.mean[:-1]
        row[-1] = mix.mean[-1]
    rows = ["output" if mix.layer is None else f"{mix.place} {mix.layer}" for mix in mixes]
    return image, rows, [*(f"block {i}" for i in range(stored)), "running sum"]


def _texts(run: Run) -> list[str]:
    found, config = run.readings, run.config
    rms, tokens = found.residual.rms, len(run.pieces)
    layer, token = np.unravel_index(rms.argmax(), rms.shape)
    experts = EXPERTS.format(
        tokens=tokens,
        top_k=config.top_k,
        sum=tokens * config.top_k,
        experts=config.experts,
        unused=int((found.counts == 0).sum()),
        all=found.counts.size,
    )
    largest = SUM.format(block=config.block, largest=rms.max(), layer=layer, token=token)
    texts = (
        ("Size of the running sum", largest),
        ("Tokens per expert", experts),
        ("Where each mix reads", MIXES),
    )
    return [_heading(run, *text) for text in texts]


def _heading(run: Run, title: str, text: str) -> str:
    badge = " <em>random weights</em>" if run.random_weights else ""
    return f"<h2>{escape(title)} <span>{escape(run.spec.model)}</span>{badge}</h2><p>{escape(text)}</p>"

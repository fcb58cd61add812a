"""What `k3scope lab` writes: one view of a run, less that of a baseline, in the format of the file."""

import io

import numpy as np

from k3scope.app.commands import intervention_options
from k3scope.app.lab.picture_difference import Pairs, captioned, minus
from k3scope.diagrams.drawing.heatmap_svg import plot_svg
from k3scope.diagrams.drawing.png import to_png
from k3scope.model.measure.picture import Picture
from k3scope.model.runs.lab import lab
from k3scope.model.runs.run import Run


def pictures(options) -> tuple[Run, Picture, Run | None]:
    """The run, its picture, and the baseline: its picture is taken off where tokens are the same."""
    interventions, sources = (
        intervention_options.interventions(options),
        intervention_options.sources(options),
    )
    run = lab(options.prompt, options.model, interventions, sources, [options.view])
    picture = _picture(run, options, options.token)
    if options.baseline is None:
        return run, picture, None
    baseline = lab(options.baseline, options.model, views=[options.view])
    pairs = Pairs.of(run, baseline)
    token = None if options.token is None else pairs.partner(options.token)
    difference = minus(picture, _picture(baseline, options, token), pairs)
    return run, captioned(difference, baseline), baseline


def _picture(run: Run, options, token: int | None) -> Picture:
    return run.picture(options.view, options.layer, options.head, options.plot, token)


def encode(run: Run, picture: Picture, options, suffix: str) -> bytes:
    """The content of a file that ends in `suffix`: every number behind the picture, a table, or itself."""
    if suffix == ".npz":
        arrays = run.view(options.view).arrays(options.layer, options.head)
        file = io.BytesIO()
        np.savez_compressed(file, **arrays, image=picture.image)
        return file.getvalue()
    if suffix == ".csv":
        return picture.csv().encode()
    svg = plot_svg(picture, options.theme == "dark")
    return to_png(svg, options.zoom) if suffix == ".png" else svg.encode()

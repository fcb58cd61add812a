"""A saved picture holds the data, the range and the colours of the one on the screen."""

import base64
import csv
import io
import re

import numpy as np
import pytest
from PIL import Image

from k3scope.app.lab.lab_views import VIEWS, Selection, draw
from k3scope.app.lab.picture_file import file_of
from k3scope.app.page.lab.heatmap import Heatmap
from k3scope.model.measure.colours import ramp
from k3scope.model.runs.lab import lab

PLACES = [("tokens", 0), ("routing", 0), ("memory", 3), ("attention", 1), ("depth", 0), ("depth", 2)]


@pytest.fixture(scope="module")
def run():
    return lab("saved as it is seen")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("view", "slot"), PLACES)
def test_files_hold_what_is_on_the_screen(run, view, slot, dark):
    place = VIEWS[view].slots[slot]
    picture = draw(run, place, place.choices[0], Selection({"memory": 0, "attention": 3}.get(view), 1, 4))
    plot = Heatmap(lambda *_: None)
    plot.colour(dark)
    plot.show(picture)
    npz = np.load(io.BytesIO(file_of(picture, "NPZ", dark)[1]))
    np.testing.assert_array_equal(npz["image"], picture.image)
    ends = np.log(npz["range"]) if picture.log else npz["range"]
    hair = 1e-6 * (ends[1] - ends[0])  # the upper end lies a hair above the largest value
    np.testing.assert_allclose([plot.mapper.low, plot.mapper.high], ends, rtol=1e-6, atol=hair)
    assert list(plot.mapper.palette) == ramp(picture.meaning, dark)
    sent = plot.source.data["image"][0]
    there = np.isfinite(sent) & (sent >= plot.mapper.low)
    shown = np.exp(sent[there]) if picture.log else sent[there]
    np.testing.assert_allclose(shown, npz["image"][there], rtol=1e-5)
    rows = list(csv.reader(io.StringIO(file_of(picture, "CSV", dark)[1].decode())))[1:]
    cells = np.array([[float(c) if c else np.nan for c in row[1:]] for row in rows])
    wanted = np.where(npz["absent"], np.nan, npz["image"].astype(float))
    np.testing.assert_allclose(cells, wanted, rtol=1e-5, atol=1e-12)
    svg = file_of(picture, "SVG", dark)[1].decode()
    cell_colours = np.array(Image.open(io.BytesIO(base64.b64decode(_first_image(svg)))))
    np.testing.assert_array_equal(cell_colours, picture.shaded(dark))
    there = np.where(npz["absent"], 0, npz["image"])
    best = np.unravel_index(np.argmax(np.abs(there)), picture.image.shape)  # a signed range ends at ± this
    top = tuple(bytes.fromhex(plot.mapper.palette[-1 if there[best] > 0 else 0][1:]))
    assert tuple(cell_colours[best][:3]) == top
    assert file_of(picture, "PNG", dark)[1].startswith(b"\x89PNG")


def _first_image(svg: str) -> str:
    return re.search(r"data:image/png;base64,([^\"]+)", svg)[1]

"""The heat map of the Lab: the values, names and colours of a picture, in one figure changed in place."""

import csv
import io

import numpy as np
import pytest

from k3scope.app.lab.picture_file import file_of
from k3scope.app.page.lab.heatmap import LABELLED, Heatmap
from k3scope.model.measure.colours import NAN, ramp
from k3scope.model.measure.picture import Picture


def picture(**more):
    given = {
        "title": "x",
        "image": np.arange(12.0).reshape(3, 4),
        "down": "layer",
        "across": "token",
        "value": "v",
    }
    return Picture(**given | more)


def drawn(shown):
    heatmap = Heatmap(lambda row, column: None)
    heatmap.show(shown)
    return heatmap


def test_cells_are_centred_on_their_numbers_with_the_first_row_on_top():
    heatmap = drawn(picture(rows=["a", "b", "c"], span=(1, 3, 0, 3)))
    assert (heatmap.plot.x_range.start, heatmap.plot.x_range.end) == (-0.5, 3.5)
    assert (heatmap.plot.y_range.start, heatmap.plot.y_range.end) == (3.5, 0.5)
    assert heatmap.plot.yaxis[0].major_label_overrides == {1: "a", 2: "b", 3: "c"}


def test_labels_of_the_picture_before_are_gone():
    heatmap = drawn(picture(image=np.zeros((1, 2)), columns=["x", "y"]))
    heatmap.show(picture(image=np.zeros((1, LABELLED + 1)), columns=["z"] * (LABELLED + 1)))
    assert heatmap.plot.xaxis[0].major_label_overrides == {0: "0", 1: "1"}  # BokehJS would keep x and y


@pytest.mark.parametrize("dark", [False, True])
def test_range_and_colours_are_those_of_the_files(dark):
    signed = picture(image=np.array([[-3.0, 1.0], [0.0, 2.0]]), meaning="signed")
    heatmap = drawn(signed)
    heatmap.colour(dark)
    assert signed.range == (-3.0, 3.0)
    assert (heatmap.mapper.low, heatmap.mapper.high) == pytest.approx((-3.0, 3.0))
    assert list(heatmap.mapper.palette) == ramp("signed", dark)
    assert heatmap.mapper.high_color == NAN[dark]


def test_a_logarithmic_picture_is_sent_as_logarithms_and_zero_as_the_least():
    heatmap = drawn(picture(log=True))
    image, low, high = heatmap.source.data["image"][0], *heatmap.picture.range
    assert image[0, 0] == -np.inf
    np.testing.assert_allclose(np.exp(image[0, 1:]), [1, 2, 3], rtol=1e-6)
    np.testing.assert_allclose(np.exp([heatmap.mapper.low, heatmap.mapper.high]), [low, high], rtol=1e-6)
    np.testing.assert_allclose(np.exp(heatmap._bar.ticker.ticks)[[0, -1]], [low, high])
    heatmap.show(picture())
    assert (heatmap.mapper.low, heatmap.mapper.high) == pytest.approx((0, 11))
    assert heatmap.source.tags == [False, "not read"]


@pytest.mark.parametrize("log", [True, False])
def test_the_largest_value_is_no_missing_number(log):
    image = np.array([[0.1, 70.57958984375, 5.814204692840576, 0.3]])
    heatmap = drawn(picture(image=image, log=log))
    assert heatmap.source.data["image"][0].max() <= heatmap.mapper.high


def test_absent_cells_and_values_that_are_no_number_are_told_apart():
    image = np.array([[1.0, np.nan], [2.0, 3.0]], dtype=np.float32)
    absent = np.array([[False, False], [True, False]])
    sent = drawn(picture(image=image, absent=absent)).source.data["image"][0]
    assert sent[0, 1] == np.inf
    assert np.isnan(sent[1, 0])
    assert (sent[0, 0], sent[1, 1]) == (1, 3)


def test_the_pointer_says_number_and_text_of_a_token_and_the_tokens_of_a_pooled_cell():
    heatmap = drawn(picture(columns=["a", " ", "c", "d"]))
    assert heatmap.column_names.data["text"] == ["0  a", "1  ␣", "2  c", "3  d"]
    heatmap.show(picture(span=(0, 2, 0, 7)))
    assert heatmap.column_names.data["text"] == ["0-1", "2-3", "4-5", "6-7"]
    assert heatmap.column_names.tags == [-0.5, 2.0, "token"]


def test_a_line_points_at_the_chosen_column_or_at_none():
    heatmap = drawn(picture())
    heatmap.mark(None, 2)
    assert (heatmap.row.visible, heatmap.column.visible, heatmap.column.location) == (False, True, 2)


def test_a_figure_is_changed_and_never_built_again():
    heatmap = drawn(picture())
    figure, source = heatmap.plot, heatmap.source
    heatmap.show(picture(image=np.zeros((79, 119)), marks=[(0, 39, "0")]))
    assert heatmap.plot is figure
    assert heatmap.source is source
    assert not figure.xaxis[0].visible


@pytest.mark.parametrize("file_format", ["PNG", "SVG", "CSV", "NPZ"])
def test_a_file_holds_what_is_shown(file_format):
    shown = picture(title="Size, layer 3", source="k3-random, random weights", rows=["a", "b", "c"])
    name, content = file_of(shown, file_format, dark=False)
    assert name == f"k3-random-random-weights-size-layer-3.{file_format.lower()}"
    if file_format == "CSV":
        rows = list(csv.reader(io.StringIO(content.decode())))
        np.testing.assert_array_equal(np.array(rows)[1:, 1:].astype(float), shown.image)
    if file_format == "NPZ":
        loaded = np.load(io.BytesIO(content))
        np.testing.assert_array_equal(loaded["image"], shown.image)
        assert tuple(loaded["range"]) == shown.range
        assert str(loaded["source"]) == shown.source
    if file_format == "SVG":
        assert b"random weights" in content


def test_a_format_there_is_not_is_refused():
    with pytest.raises(ValueError, match="expected PNG, SVG, CSV, NPZ"):
        file_of(picture(), "GIF", dark=False)

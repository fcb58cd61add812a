"""Linked hover: which axes count the same thing, and what its numbers are."""

import numpy as np
import pytest

from k3scope.app.page.lab import linked_cursor
from k3scope.app.page.lab.heatmap import Heatmap
from k3scope.model.measure.picture import Picture


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("token", "token"), ("KDA head", "head"), ("MLA head", "head"), ("after layer", "layer"),
        ("mix", "layer"), ("sublayer", "layer"), ("expert", "expert"), ("key channel", "key channel"),
        ("heads", ""), ("source", ""),
    ],
)  # fmt: skip
def test_axes_that_count_the_same_thing_have_one_word(word, kind):
    assert linked_cursor.kind_of(word) == kind


def test_rows_know_their_layer_by_their_name():
    names = ["embedding", "attention 0", "FFN 0", "KDA dense 12"]
    assert linked_cursor.ids("layer", names) == [-1, 0, 0, 12]
    assert linked_cursor.ids("token", ["7", "8"]) == [-1, -1]


def test_every_plot_hears_the_pointer_and_marks_what_another_one_points_at():
    plots = [Heatmap(lambda *_: None) for _ in range(2)]
    linked_cursor.link(plots)
    for plot in plots:
        assert {"mousemove", "mouseleave"} <= plot.plot.js_event_callbacks.keys()
        plot.show(Picture("x", np.ones((2, 3)), "layer", "token", "value", ["KDA 1", "MLA 3"], "abc"))
        assert plot.row_names.data["id"] == [1, 3]
        assert plot.row_names.tags[2] == "layer"
        assert not any(band.visible for band in plot.bands)

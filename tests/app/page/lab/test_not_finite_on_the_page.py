"""What is not finite has a colour of its own and a word under the pointer; what is not there is not read."""

from dataclasses import replace

import numpy as np
import pytest
from bad_models import bad_image_run, bad_run, not_numbers

from k3scope.app.lab.lab_views import VIEWS, Selection, draw
from k3scope.app.lab.pooling import fit
from k3scope.app.page.lab import hover
from k3scope.app.page.lab.attention_strip import attention_strip
from k3scope.app.page.lab.heatmap import Heatmap
from k3scope.app.page.lab.image_tiles import tile
from k3scope.app.page.lab.image_views import image_text
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.routing import Routing

BAD = np.array([[1.0, np.nan, np.inf], [-np.inf, 2.0, 0.0]])


def heatmap_of(picture: Picture) -> Heatmap:
    heatmap = Heatmap(lambda row, column: None)
    heatmap.show(picture)
    return heatmap


@pytest.mark.parametrize("log", [False, True])
def test_what_is_not_finite_lies_above_the_scale_and_is_told_apart(log):
    heatmap = heatmap_of(Picture("t", BAD, "a", "b", "v", log=log))
    sent, signs = heatmap.source.data["image"][0], heatmap.source.data["signs"][0]
    np.testing.assert_array_equal(sent == np.inf, ~np.isfinite(BAD))
    assert not np.isnan(sent).any()
    np.testing.assert_array_equal(signs, [[0, 0, 1], [-1, 0, 0]])
    assert heatmap.mapper.high < np.inf
    assert np.isfinite(heatmap._bar.ticker.ticks).all()
    assert heatmap._bar.visible


@pytest.mark.parametrize("log", [False, True])
def test_without_a_number_there_is_no_scale(log):
    heatmap = heatmap_of(Picture("t", np.full((2, 2), np.nan), "a", "b", "v", log=log))
    assert not heatmap._bar.visible
    heatmap.show(Picture("t", np.ones((2, 2)), "a", "b", "v", log=log))
    assert heatmap._bar.visible


def test_pooling_keeps_what_is_not_finite_as_it_is():
    image = np.ones((4, 8), dtype=np.float32)
    image[0, 0], image[0, 5], image[2, 2], image[3, 7] = np.nan, np.inf, -np.inf, 1e30
    pooled = fit(Picture("t", image, "a", "b", "v"), 8).image
    assert np.isinf(pooled).sum() == 1
    assert np.isnan(pooled).sum() == 2  # the least of an unsigned picture is hidden by what is larger
    assert pooled[np.isfinite(pooled)].max() == np.float32(1e30)
    signed = fit(Picture("t", image, "a", "b", "v", meaning="signed"), 8).image
    assert (signed == -np.inf).sum() == 1


def test_masked_cells_of_a_healthy_map_are_not_read():
    _, run = bad_run("")
    selection = Selection(3, 0, 4)
    for slot in VIEWS["attention"].slots[:2]:
        for choice in slot.choices:
            picture = draw(run, slot, choice, selection)
            assert picture.bad_count == 0
            heatmap = heatmap_of(picture)
            assert heatmap.source.tags[1] == "not read"
            assert np.isnan(heatmap.source.data["image"][0]).any()
            assert all(field != "@image{custom}" for _, field in heatmap._hover.tooltips)


def test_the_hover_of_a_mosaic_gives_head_row_token_and_column_token():
    _, run = bad_run("")
    picture = draw(
        run, VIEWS["attention"].slots[0], VIEWS["attention"].slots[0].choices[0], Selection(3, 0, 4)
    )
    heatmap = heatmap_of(picture)
    assert [name for name, _ in heatmap._hover.tooltips] == [
        "head", "row, reads", "column, is read", "weight"
    ]  # fmt: skip
    tiles, length = picture.tiles, run.length
    assert heatmap._tiles.tags == [tiles.across, run.config.heads, length + 1]
    rows, columns = (names.data["text"] for names in (heatmap.row_names, heatmap.column_names))
    assert (len(rows), len(columns)) == picture.image.shape
    for names in (rows, columns):
        assert names[4] == f"4  {run.token_texts[4].replace(' ', '␣')}"
        assert names[length] == ""  # between two maps
        assert names[length + 1 + 4] == names[4]
    table = picture.csv().splitlines()
    assert f"heads in columns 1, 4  {run.token_texts[4]}" in table[0]
    assert table[2 + length + 1].startswith('"heads in rows 1, 1  ')
    assert hover.tooltips(replace(picture, tiles=None))[0] == ("heads", "$y{custom}")


def test_a_long_mosaic_names_the_tokens_that_a_cell_pools():
    _, run = bad_run("")
    picture = run.attention.mosaic(3, cells=run.config.heads * 36)
    assert any("-" in name for name in picture.tiles.names)
    assert len(picture.tiles.names) == picture.tiles.side < run.length


@pytest.mark.parametrize("stage", ["patches", "block", "projector"])
def test_an_image_whose_tower_is_not_finite_has_no_numbers(stage):
    result, _ = bad_image_run(stage)
    assert "vision_tower" in result.readings.first_bad or "mm_projector" in result.readings.first_bad
    image = result.images[0]
    layer = next(iter(image.attended))
    for patches in image.stages:
        text = image_text(result, image, layer, None, patches)
        assert not not_numbers(text)
    shown = tile("Rows", "amount", "row")
    shown.show(image.rows)
    shown.colour(False)
    assert np.isfinite([shown.mapper.low, shown.mapper.high]).all()
    assert (shown.source.data["image"][0] == np.inf).all() == (not np.isfinite(image.rows).any())
    assert shown.bar.visible == bool(np.isfinite(image.rows).any())
    strip = attention_strip(lambda event: None)
    strip.show({n: of.share for n, of in image.attended.items()}, image.readers)
    assert strip.mapper.high == pytest.approx(1)
    assert not strip.bar.visible


def test_tokens_without_scores_are_left_out_of_the_counts():
    index = np.array([[0, 1], [-1, -1], [1, 2]], dtype=np.int16)
    weight = np.array([[0.5, 0.5], [np.nan, np.nan], [0.25, 0.75]], dtype=np.float32)
    routing = Routing(3, index, weight, np.array([0.1, np.nan, 0.2]))
    assert routing.bad.tolist() == [False, True, False]
    assert routing.counts(4).tolist() == [1, 2, 1, 0]
    np.testing.assert_allclose(routing.load(4), [0.5, 0.75, 0.75, 0])
    lanes = routing.lanes(4)
    assert np.isnan(lanes[1]).all()
    assert lanes[2].tolist() == [0, 0.25, 0.75, 0]


@pytest.mark.parametrize("how", ["max", "mean"])
def test_a_pooled_map_of_a_head_has_a_nan_wherever_the_map_has(how):
    _, run = bad_run("MLA key")
    tiles = run.attention.tiles(3, how, cells=run.config.heads * 36)
    for head, tile_ in enumerate(tiles):
        bad = np.isnan(run.attention.map(3, head))
        for i, j in np.ndindex(tile_.image.shape):
            cell = bad[tile_.rows[i] : tile_.rows[i + 1], tile_.columns[j] : tile_.columns[j + 1]]
            assert np.isnan(tile_.image[i, j]) == cell.any()

"""What the pointer says of a cell of a heat map: where it is, and its value in digits or in words."""

from bokeh.models import ColumnDataSource, CustomJSHover

from k3scope.model.measure.picture import Picture

# the name of a row or a column under the pointer; its source is tagged with where cells start and their size
_NAME = """
const [start, step] = names.tags
return names.data.text[Math.floor((special_vars.%s - start) / step)] ?? ""
"""
# the value under the pointer, as `_encode` sent it; Bokeh itself would write "NaN" for an absent cell
_VALUE = """
const [row, column] = [[rows, "y"], [columns, "x"]].map(([names, axis]) =>
  Math.floor((special_vars[axis] - names.tags[0]) / names.tags[1]))
const image = scale.data.image[0], cell = row * image.shape[1] + column, encoded = image[cell]
const [log, empty] = scale.tags
if (encoded === undefined || Number.isNaN(encoded)) return empty
if (encoded === Infinity) {
  const sign = scale.data.signs[0][cell] ?? 0
  return ["minus infinite", "not a number", "infinite"][1 + sign]
}
const real = log ? Math.exp(encoded) : encoded
return Number.isInteger(real) ? real.toLocaleString("en-US") : String(Number(real.toPrecision(6)))
"""
# which map of a mosaic is under the pointer; its source is tagged with how many stand side by side, how many
# there are, and the cells from one to the next
_TILE = """
const [across, count, side] = tiles.tags
const [row, column] = [special_vars.y, special_vars.x].map((at) => Math.floor((at + 0.5) / side))
const map = row * across + column
return column < across && map < count ? String(map) : ""
"""


def formatters(
    image: ColumnDataSource, rows: ColumnDataSource, columns: ColumnDataSource, tiles: ColumnDataSource
) -> dict[str, CustomJSHover]:
    """The code behind the fields of `tooltips`; `tiles` has tags alone: across, count, cells to the next."""
    return {
        "$x": CustomJSHover(args={"names": columns}, code=_NAME % "x"),
        "$y": CustomJSHover(args={"names": rows}, code=_NAME % "y"),
        # places on the screen, which nobody needs, stand for what Bokeh has no name for
        "$sx": CustomJSHover(args={"scale": image, "rows": rows, "columns": columns}, code=_VALUE),
        "$sy": CustomJSHover(args={"tiles": tiles}, code=_TILE),
    }


def tooltips(picture: Picture) -> list[tuple[str, str]]:
    """Name and field of each line under the pointer; of a mosaic also which map it is."""
    down, across, tiles = picture.down, picture.across, picture.tiles
    lines = [(tiles.what, "$sy{custom}")] if tiles else []
    if tiles:
        down, across = tiles.down, tiles.along
    return [*lines, (down, "$y{custom}"), (across, "$x{custom}"), (picture.value, "$sx{custom}")]

"""What the pointer is over is marked in every plot that has it: in the browser, without asking the server."""

import re
from collections.abc import Sequence

from bokeh.models import BoxAnnotation, ColumnDataSource, CustomJS

from k3scope.app.page.kit.theme import colours

# A plot has two axes and two bands: across (columns, d = 0) and down (rows, d = 1). An axis is the source of
# its names: text and layer (`id`) of each, and as tags where the first cell starts, the size of a cell and
# what is counted. `axes` and `bands` hold those of all plots, `me` is the plot under the pointer. Tokens,
# heads and experts are the same where their numbers are; a layer may have several rows (its two mixes, say),
# so it is looked up by id. Nothing is synced: the marks are this browser's own, and a server would send them
# back late. `state` holds what is marked: the pointer moves far more often than its cell.
_MOVE = """
const position = [cb_obj.x, cb_obj.y]
const pointed = axes[me].map((axis, d) => {
  const [start, step, kind] = axis.tags, cell = Math.floor((position[d] - start) / step)
  if (!kind || cell < 0 || cell >= axis.data.text.length) return null
  return { kind, id: kind === "layer" ? axis.data.id[cell] : Math.round(position[d]) }
})
const key = JSON.stringify([me, pointed])
if (state.tags[0] === key) return
state.setv({ tags: [key] }, { sync: false })
axes.forEach((pair, plot) => pair.forEach((axis, d) => {
  const [start, step, kind] = axis.tags, cells = axis.data.text.length
  const target = [pointed[d], pointed[1 - d]].find((thing) => thing && thing.kind === kind)
  let first = null, last = null
  if (target && kind === "layer") {
    const firstCell = axis.data.id.indexOf(target.id)
    const end = axis.data.id.lastIndexOf(target.id) + 1
    if (firstCell >= 0) [first, last] = [start + firstCell * step, start + end * step]
  } else if (target && target.id >= start && target.id < start + cells * step)
    [first, last] = [target.id - 0.5, target.id + 0.5]
  const ends = d === 0 ? { left: first ?? 0, right: last ?? 0 } : { top: first ?? 0, bottom: last ?? 0 }
  bands[plot][d].setv({ ...ends, visible: first !== null }, { sync: false })
}))
"""
_LEAVE = """
state.setv({ tags: [] }, { sync: false })
for (const band of bands.flat()) band.setv({ visible: false }, { sync: false })
"""


def bands() -> tuple[BoxAnnotation, BoxAnnotation]:
    """Marks of a column and of a row."""
    style = {"fill_alpha": 0, "line_width": 1.5, "line_alpha": 0.9, "visible": False, "level": "overlay"}
    return BoxAnnotation(left=0, right=0, **style), BoxAnnotation(top=0, bottom=0, **style)


def paint(pair: Sequence[BoxAnnotation], dark: bool) -> None:
    for band in pair:
        band.line_color = colours(dark)["pick"]


def kind_of(axis_label: str) -> str:
    """What the numbers of an axis count, the same word in every plot; empty where they count nothing.

    Heads of KDA and of MLA are one kind; channels of keys and of values are two.
    """
    last = axis_label.rpartition(" ")[2]
    if last in ("token", "head", "expert", "channel"):
        return axis_label if last == "channel" else last
    return "layer" if last in ("layer", "mix", "sublayer") else ""


def ids(kind: str, names: Sequence[str]) -> list[int]:
    """Layer that each row or column belongs to, -1 for none; other kinds go by their numbers."""
    if kind != "layer":
        return [-1] * len(names)
    matches = (re.search(r"(\d+)$", name) for name in names)
    return [int(match[1]) if match else -1 for match in matches]


def link(plots: Sequence) -> None:
    """Let the `Heatmap`s of `plots` mark what is under the pointer in one of them."""
    args = {
        "axes": [[plot.column_names, plot.row_names] for plot in plots],
        "bands": [list(plot.bands) for plot in plots],
        "state": ColumnDataSource(),
    }
    for n, plot in enumerate(plots):
        plot.plot.js_on_event("mousemove", CustomJS(args={**args, "me": n}, code=_MOVE))
        plot.plot.js_on_event("mouseleave", CustomJS(args=args, code=_LEAVE))

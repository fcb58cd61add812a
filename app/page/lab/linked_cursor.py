"""What the pointer is over is marked in every plot that has it: in the browser, without asking the server."""

import re
from collections.abc import Sequence

from bokeh.models import BoxAnnotation, ColumnDataSource, CustomJS

from k3scope.app.page.kit.theme import colours

# bands of a plot: across (a column) and down (a row); `axes`: names of columns and of rows, in this order
_MOVE = """
const at = [cb_obj.x, cb_obj.y]
const spot = axes[me].map((axis, d) => {
  const [start, step, kind] = axis.tags, cell = Math.floor((at[d] - start) / step)
  if (!kind || cell < 0 || cell >= axis.data.text.length) return null
  return { kind, id: kind === "layer" ? axis.data.id[cell] : Math.round(at[d]) }
})
const key = JSON.stringify([me, spot])
if (state.tags[0] === key) return
state.setv({ tags: [key] }, { sync: false })
axes.forEach((pair, plot) => pair.forEach((axis, d) => {
  const [start, step, kind] = axis.tags, cells = axis.data.text.length
  const wanted = [spot[d], spot[1 - d]].find((s) => s && s.kind === kind)
  let first = null, last = null
  if (wanted && kind === "layer") {
    const here = axis.data.id.indexOf(wanted.id)
    const end = axis.data.id.lastIndexOf(wanted.id) + 1
    if (here >= 0) [first, last] = [start + here * step, start + end * step]
  } else if (wanted && wanted.id >= start && wanted.id < start + cells * step)
    [first, last] = [wanted.id - 0.5, wanted.id + 0.5]
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
    look = {"fill_alpha": 0, "line_width": 1.5, "line_alpha": 0.9, "visible": False, "level": "overlay"}
    return BoxAnnotation(left=0, right=0, **look), BoxAnnotation(top=0, bottom=0, **look)


def paint(pair: Sequence[BoxAnnotation], dark: bool) -> None:
    for band in pair:
        band.line_color = colours(dark)["pick"]


def kind_of(word: str) -> str:
    """What the numbers of an axis count, the same word in every plot; empty where they count nothing."""
    last = word.rpartition(" ")[2]
    if last in ("token", "head", "expert", "channel"):
        return word if last == "channel" else last
    return "layer" if last in ("layer", "mix", "sublayer") else ""


def ids(kind: str, names: Sequence[str]) -> list[int]:
    """Layer that each row or column belongs to, -1 for none; other kinds go by their numbers."""
    if kind != "layer":
        return [-1] * len(names)
    found = (re.search(r"(\d+)$", name) for name in names)
    return [int(m[1]) if m else -1 for m in found]


def link(plots: Sequence) -> None:
    """Let `plots` point at what is under the pointer in one of them."""
    args = {
        "axes": [[plot.column_names, plot.row_names] for plot in plots],
        "bands": [list(plot.bands) for plot in plots],
        "state": ColumnDataSource(),
    }
    for n, plot in enumerate(plots):
        plot.plot.js_on_event("mousemove", CustomJS(args={**args, "me": n}, code=_MOVE))
        plot.plot.js_on_event("mouseleave", CustomJS(args=args, code=_LEAVE))

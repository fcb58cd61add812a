"""The colours of the page for what is not drawn by the browser's style sheet: Bokeh figures and widgets."""

import re
from functools import cache
from pathlib import Path

from bokeh.plotting import figure

from app.state import State
from assets import ROOT

PARTS = Path(ROOT / "parts.css")  # for `stylesheets=` of Panel panes and widgets


@cache
def colours(dark: bool) -> dict[str, str]:
    """The colours of page.css by name: its :root, overlaid by .dark."""
    text = (ROOT / "page.css").read_text(encoding="utf-8")
    light, night = (re.search(rf"{name} \{{(.*?)\}}", text, re.S)[1] for name in (":root", r"\.dark"))
    found = re.findall(r"--([a-z-]+): (#[0-9a-f]+)", light + night if dark else light)
    return dict(found)


def paint(plot: figure, dark: bool) -> None:
    """Give a figure the page's colours; its background stays the page's own."""
    c = colours(dark)
    plot.background_fill_color = plot.border_fill_color = None
    plot.outline_line_color = c["edge"]
    for axis in plot.axis:
        axis.axis_line_color = axis.major_tick_line_color = c["edge"]
        axis.minor_tick_line_color = None
        axis.major_label_text_color = axis.axis_label_text_color = c["muted"]
        axis.axis_label_text_font_style = "normal"
    for grid in plot.grid:
        grid.grid_line_color = c["rule"]
    plot.title.text_color = c["fg"]
    for bar in plot.right + plot.below + plot.above:
        if hasattr(bar, "color_mapper"):
            bar.background_fill_color = None
            bar.major_label_text_color = bar.title_text_color = c["muted"]


def follow(plot: figure, state: State) -> figure:
    """A figure in the page's colours, also after the visitor changes the theme."""
    paint(plot, state.dark)
    state.param.watch(lambda event: paint(plot, event.new), "dark")
    return plot

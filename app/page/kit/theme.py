"""The colours of the page for what is not drawn by the browser's style sheet: Bokeh figures and widgets."""

import re
from functools import cache
from pathlib import Path

from bokeh.plotting import figure
from markupsafe import Markup

from k3scope.app.link.state import State
from k3scope.assets import CSS
from k3scope.diagrams.drawing import svg

PARTS = Path(CSS / "parts.css")  # for `stylesheets=` of Panel panes and widgets
FONT = "system-ui, sans-serif"  # of figures: not every browser has Bokeh's own


@cache
def colours(dark: bool) -> dict[str, str]:
    """Every colour of the page by name. Those of the drawing live in diagram.css, the others in page.css."""
    light, night = (_own(selector) for selector in (":root", r"\.dark"))
    return _drawing(dark) | light | (night if dark else {})


def _own(selector: str) -> dict[str, str]:
    text = (CSS / "page.css").read_text(encoding="utf-8")
    block = re.search(rf"^{selector} \{{(.*?)\}}", text, re.S | re.M)[1]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", block))


def _drawing(dark: bool) -> dict[str, str]:
    found = dict(svg.colours(dark))
    found["edge"] = found.pop("border")  # inside Panel's shadow roots --border means something else
    return found


@cache
def drawing_colours() -> Markup:
    """The colours of the drawing as variables of the whole page."""
    light, dark = (
        ";".join(f"--{name}:{value}" for name, value in _drawing(d).items()) for d in (False, True)
    )
    return Markup(f":root{{{light}}}.dark{{{dark}}}")


def themed(drawing: str) -> Markup:
    """An SVG in the light colours, made to follow the page's theme."""
    names = {value: name for name, value in reversed(_drawing(False).items())}
    return Markup(
        re.sub(r"#[0-9a-f]{6}\b", lambda m: f"var(--{names[m[0]]})" if m[0] in names else m[0], drawing)
    )


def paint(plot: figure, dark: bool) -> None:
    """Give a figure the page's colours and letters; its background stays the page's own."""
    c = colours(dark)
    plot.background_fill_color = plot.border_fill_color = None
    plot.outline_line_color = c["edge"]
    for axis in plot.axis:
        axis.axis_line_color = axis.major_tick_line_color = c["edge"]
        axis.minor_tick_line_color = None
        axis.major_label_text_color = axis.axis_label_text_color = c["muted"]
        axis.axis_label_text_font_style = "normal"
        axis.major_label_text_font = axis.axis_label_text_font = FONT
    for grid in plot.grid:
        grid.grid_line_color = c["rule"]
    plot.title.update(text_color=c["fg"], text_font=FONT)
    for bar in plot.right + plot.below + plot.above:
        if hasattr(bar, "color_mapper"):
            bar.background_fill_color = None
            bar.major_label_text_color = bar.title_text_color = c["muted"]
            bar.major_label_text_font = bar.title_text_font = FONT


def follow(plot: figure, state: State) -> figure:
    """A figure in the page's colours, also after the visitor changes the theme."""
    paint(plot, state.dark)
    state.follow("figure.theme", lambda event: paint(plot, event.new))
    return plot

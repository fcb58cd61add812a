"""The colours of the page for what no style sheet reaches: Bokeh figures, and SVG drawn in Python."""

import re
from functools import cache

from bokeh.plotting import figure
from markupsafe import Markup

from k3scope.app.link.state import State
from k3scope.assets import CSS
from k3scope.diagrams.drawing import svg

FONT = "system-ui, sans-serif"  # of figures: not every browser has Bokeh's own


@cache
def colours(dark: bool) -> dict[str, str]:
    """Every colour of the page by name. Those of the diagram stand in diagram.css, the others in page.css."""
    light, overrides = (_page_colours(selector) for selector in (":root", r"\.dark"))
    return _diagram_colours(dark) | light | (overrides if dark else {})


def _page_colours(selector: str) -> dict[str, str]:
    text = (CSS / "page.css").read_text(encoding="utf-8")
    block = re.search(rf"^{selector} \{{(.*?)\}}", text, re.S | re.M)[1]
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", block))


def _diagram_colours(dark: bool) -> dict[str, str]:
    values = dict(svg.colours(dark))
    values["edge"] = values.pop("border")  # inside Panel's shadow roots --border means something else
    return values


@cache
def drawing_colours() -> Markup:
    """The colours of the diagram as CSS variables of the page."""
    light, dark = (
        ";".join(f"--{name}:{value}" for name, value in _diagram_colours(d).items()) for d in (False, True)
    )
    return Markup(f":root{{{light}}}.dark{{{dark}}}")


def themed(drawing: str) -> Markup:
    """An SVG in the light colours, made to follow the page's theme."""
    names = {value: name for name, value in reversed(_diagram_colours(False).items())}
    return Markup(
        re.sub(r"#[0-9a-f]{6}\b", lambda m: f"var(--{names[m[0]]})" if m[0] in names else m[0], drawing)
    )


def paint(plot: figure, dark: bool) -> None:
    """Give a figure the page's colours and font; its background stays the page's own."""
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


def follow_theme(plot: figure, state: State) -> figure:
    """The figure in the page's colours, repainted when the visitor changes the theme."""
    paint(plot, state.dark)
    state.follow("figure.theme", lambda event: paint(plot, event.new))
    return plot

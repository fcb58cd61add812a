"""HTML from the templates in assets: every value is text unless it is marked as safe."""

import re
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from assets import ROOT

_environment = Environment(
    loader=FileSystemLoader(ROOT),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_markdown = MarkdownIt("commonmark", {"html": False}).enable("table")


def template(name: str):
    """A template of assets, compiled once."""
    return _environment.get_template(name)


def render(name: str, **values) -> str:
    return template(name).render(**values)


def asset(name: str) -> Markup:
    """A file of assets to stand in the page as it is."""
    return Markup((ROOT / name).read_text(encoding="utf-8"))


@cache
def prose(markdown: str) -> Markup:
    """Our own notes as HTML; tags in them stay text."""
    return Markup(_markdown.render(markdown))


def breakable(name: str) -> Markup:
    """A dotted name that may break after its dots."""
    return Markup(".<wbr>").join(name.split("."))


def needed_first(scripts: str) -> str:
    """Bokeh's script tags less MathJax, which shell.js loads with the first formula, and less WebGL."""
    return re.sub(r"<script[^>]*bokeh-(mathjax|gl)[^>]*></script>\s*", "", scripts)


def number(value: int) -> str:
    return f"{value:,}"


def short(value: int) -> str:
    """A count in three or four digits: 2.78T, 104.2B, 443.7M; small ones in full."""
    for unit, size in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
        if value >= size:
            scaled = value / size
            return f"{scaled:.2f}{unit}" if scaled < 10 else f"{scaled:.1f}{unit}"
    return f"{value:,}"


def percent(part: int, whole: int) -> str:
    """A share; what is too small to show is said to be small, never 0."""
    share = 100 * part / whole
    if part and share < 0.001:
        return "< 0.001%"
    return f"{share:.2f}%" if share >= 0.1 or not part else f"{share:.3f}%"


_environment.filters["needed_first"] = needed_first
_environment.filters |= {"number": number, "short": short, "breakable": breakable, "prose": prose}
_environment.globals |= {"percent": percent, "asset": asset}

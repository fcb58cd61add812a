"""HTML from the templates in assets: every value is text unless it is marked as safe."""

import re
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from k3scope.app.link.fields import VERSION, VERSION_KEY
from k3scope.app.page.kit import nonce
from k3scope.assets import ROOT, TEMPLATES
from k3scope.diagrams.spec.format_numbers import short, size

_environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
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
    """HTML of a template with these values. UndefinedError names one that it uses and does not get."""
    return template(name).render(**values)


def asset(name: str) -> Markup:
    """Text of a file of assets, put into a page without escaping."""
    return Markup((ROOT / name).read_text(encoding="utf-8"))


@cache
def prose(markdown: str) -> Markup:
    """Our own notes as HTML; tags in them stay text."""
    return Markup(_markdown.render(markdown))


def breakable(name: str) -> Markup:
    """A dotted name that may break after its dots."""
    return Markup(".<wbr>").join(name.split("."))


def axes(shape: str) -> Markup:
    """A shape, "[B, T, d]", with each axis name in an element: axes.js highlights equal names together."""
    parts = re.split(r"([A-Za-z_]\w*)", shape)
    name = Markup('<span class="axis" data-axis="{0}" tabindex="0">{0}</span>')
    return Markup("").join(name.format(part) if i % 2 else part for i, part in enumerate(parts))


def without_lazy_scripts(scripts: str) -> str:
    """Bokeh's script tags without MathJax, which shell.js loads with the first formula, and WebGL."""
    return re.sub(r"<script[^>]*bokeh-(mathjax|gl)[^>]*></script>\s*", "", scripts)


def number(value: int) -> str:
    """7168 as "7,168"."""
    return f"{value:,}"


def percent(part: int, total: int) -> str:
    """A share of the total; one too small to show is "< 0.001%", never 0."""
    share = 100 * part / total
    if part and share < 0.001:
        return "< 0.001%"
    return f"{share:.2f}%" if share >= 0.1 or not part else f"{share:.3f}%"


_environment.filters |= {"without_lazy_scripts": without_lazy_scripts, "with_nonce": nonce.mark_scripts}
_environment.filters |= {"number": number, "short": short, "size": size, "axes": axes}
_environment.filters |= {"breakable": breakable, "prose": prose}
_environment.globals |= {"percent": percent, "asset": asset, "link_version": f"{VERSION_KEY}={VERSION}"}
_environment.globals["nonce"] = nonce.PLACEHOLDER

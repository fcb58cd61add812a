"""Markdown with formulas: $...$ and $$...$$ become elements that the browser typesets."""

import re
from functools import cache

from markupsafe import Markup, escape

from k3scope.app.page.kit.templates import prose

_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.S)
# a formula is taken out before Markdown reads the text: its backslashes and underscores are not Markdown's;
# its number stands there between two characters for private use, which our texts do not have
_PLACEHOLDER = "\ue000{}\ue001"


@cache
def with_formulas(markdown: str) -> Markup:
    """Our own text as HTML; tags in it stay text, formulas keep their LaTeX in `data-tex`."""
    formulas: list[str] = []

    def take_out(match: re.Match) -> str:
        displayed, inline = match[1], match[2]
        tex = escape((displayed or inline).strip())
        block = f'<div class="equation" data-tex="{tex}">{tex}</div>'
        formulas.append(block if displayed else f'<span data-tex="{tex}">{tex}</span>')
        return _PLACEHOLDER.format(len(formulas) - 1)

    html = str(prose(_FORMULA.sub(take_out, markdown)))
    html = re.sub("<p>(\ue000\\d+\ue001)</p>", r"\1", html)  # a div may not stand in a paragraph
    return Markup(re.sub("\ue000(\\d+)\ue001", lambda m: formulas[int(m[1])], html))

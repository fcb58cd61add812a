"""Markdown with formulas: $...$ and $$...$$ become places that the browser typesets."""

import re
from functools import cache

from markupsafe import Markup, escape

from k3scope.app.page.kit.templates import prose

_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.S)
# a formula is taken out before Markdown reads the text: its backslashes and underscores are not Markdown's
_MARK = "\ue000{}\ue001"


@cache
def with_formulas(markdown: str) -> Markup:
    """Our own text as HTML; tags in it stay text, formulas keep their LaTeX in `data-tex`."""
    found: list[str] = []

    def keep(match: re.Match) -> str:
        shown, inline = match[1], match[2]
        tex = escape((shown or inline).strip())
        block = f'<div class="equation" data-tex="{tex}">{tex}</div>'
        found.append(block if shown else f'<span data-tex="{tex}">{tex}</span>')
        return _MARK.format(len(found) - 1)

    html = str(prose(_FORMULA.sub(keep, markdown)))
    html = re.sub("<p>(\ue000\\d+\ue001)</p>", r"\1", html)
    return Markup(re.sub("\ue000(\\d+)\ue001", lambda m: found[int(m[1])], html))

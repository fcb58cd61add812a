"""The nonce that lets our own inline scripts run and no others: a new one in every answer.

Templates write a placeholder, which never leaves the process, so that a rendered page serves many visitors.
"""

import re
import secrets

PLACEHOLDER = secrets.token_urlsafe(18)
_SCRIPT = re.compile(r"<script(?=[\s>])")


def new() -> str:
    """A nonce for one answer."""
    return secrets.token_urlsafe(18)


def fill(html: str, nonce: str) -> str:
    """A rendered page with the nonce of its answer."""
    return html.replace(PLACEHOLDER, nonce)


def mark_scripts(scripts: str) -> str:
    """Script tags that Panel and Bokeh made, with the placeholder. The JSON within them has no tag."""
    return _SCRIPT.sub(f'<script nonce="{PLACEHOLDER}"', scripts)

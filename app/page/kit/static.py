"""Scripts and styles of assets as text: Panel serves no path outside the folder of the app."""

from k3scope.assets import CSS, JS


def scripts(*names: str) -> str:
    """Files of assets/js as one text, in this order: a later one may use what an earlier one defines."""
    return "\n".join((JS / f"{name}.js").read_text(encoding="utf-8") for name in names)


def styles(*names: str) -> str:
    """Files of assets/css as one text."""
    return "\n".join((CSS / f"{name}.css").read_text(encoding="utf-8") for name in names)

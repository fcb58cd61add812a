"""An SVG document as PNG, without a browser, in fonts that the package ships."""

import resvg_py

from k3scope.assets import FONTS


def to_png(svg: str, zoom: float = 2.0) -> bytes:
    """PNG bytes; `zoom` is pixels per SVG unit. ValueError when the document or the size is unusable."""
    if not 0.1 <= zoom <= 8:
        raise ValueError(f"zoom is {zoom}; expected 0.1 to 8")
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=svg,
            zoom=zoom,
            skip_system_fonts=True,
            font_files=[str(path) for path in sorted(FONTS.glob("*.ttf"))],
            font_family="DejaVu Sans",
            sans_serif_family="DejaVu Sans",
            monospace_family="DejaVu Sans Mono",
        )
    )

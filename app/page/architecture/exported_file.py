"""The drawing as a file for a visitor to save, made by the pool: a PNG has a bounded number of pixels."""

from k3scope.diagrams.scene.diagram_file import DiagramFile

MOST_PIXELS = 24 * 2**20  # of a PNG: three seconds, and 200 MB of memory while it is made
ZOOM = 2.0  # pixels per unit of the drawing, where it is not too large for that


def content_of(file: DiagramFile, form: str) -> tuple[bytes, str]:
    """The file, and a note when it is smaller than usual. ValueError when it would be too small to read."""
    zoom = min(ZOOM, file.zoom_of(MOST_PIXELS)) if form == "png" else ZOOM
    note = f" with {zoom:.2f} instead of {ZOOM:g} pixels per unit; an SVG has no such bound"
    return file.encode(form, zoom), note if zoom < ZOOM else ""

"""A picture as a file: exactly what is on the page, in the format that is asked for."""

import io
import re

import numpy as np

from k3scope.diagrams.drawing.heatmap_svg import plot_svg
from k3scope.diagrams.drawing.png import to_png
from k3scope.model.measure.picture import Picture

MIME = {"PNG": "image/png", "SVG": "image/svg+xml", "CSV": "text/csv", "NPZ": "application/octet-stream"}


def file_of(picture: Picture, file_format: str, dark: bool) -> tuple[str, bytes]:
    """Name and bytes. ValueError for a format there is not."""
    if file_format not in MIME:
        raise ValueError(f"there is no format {file_format!r}; expected {', '.join(MIME)}")
    slug = re.sub(r"[^a-z0-9]+", "-", f"{picture.source} {picture.title}".lower()).strip("-")
    return f"{slug}.{file_format.lower()}", _encode(picture, file_format, dark)


def _encode(picture: Picture, file_format: str, dark: bool) -> bytes:
    match file_format:
        case "SVG":
            return plot_svg(picture, dark).encode()
        case "PNG":
            return to_png(plot_svg(picture, dark))
        case "CSV":
            return picture.csv().encode()
    return _npz(picture)


def _npz(picture: Picture) -> bytes:
    """Image, absent cells and range as arrays; titles and names of rows and columns as text."""
    file = io.BytesIO()
    absent = np.zeros(picture.image.shape, dtype=bool) if picture.absent is None else picture.absent
    texts = {
        name: np.array(getattr(picture, name)) for name in ("title", "source", "value", "down", "across")
    }
    np.savez_compressed(
        file,
        image=picture.image,
        absent=absent,
        span=np.array(picture.numbers),
        range=np.array(picture.range),
        rows=np.array(list(picture.rows), dtype=str),
        columns=np.array(list(picture.columns), dtype=str),
        **texts,
    )
    return file.getvalue()

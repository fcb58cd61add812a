"""Pictures made small enough for the page: pooled when they have more cells than it is sent."""

from dataclasses import replace

import numpy as np

from k3scope.model.measure.picture import Picture

BINNED_SIDE = 128  # of square maps: a whole part of the side they may have been binned to before


def fit(picture: Picture, cells: int) -> Picture:
    """At most so many cells, four bytes each (two when they count something): pooled when there are more.

    A pooled cell is the largest value in it, by size when they are signed; NaN if one in it is, and infinite
    where that is the worst in it.
    """
    image = picture.image
    if np.issubdtype(image.dtype, np.integer) and 0 <= image.min(initial=0) <= image.max(initial=0) < 2**16:
        image, cells = image.astype(np.uint16), 2 * cells
    else:
        image = image.astype(np.float32)
    if picture.marks or image.size <= cells:
        return replace(picture, image=image)
    rows, columns = (_bounds(n, limit) for n, limit in zip(image.shape, _limits(picture, cells), strict=True))
    note = f"{picture.note} Pooled: a cell is the largest {picture.value} in it.".strip()
    absent = picture.absent if picture.absent is not None else np.zeros(image.shape, dtype=bool)
    all_absent = _pool(np.logical_and, absent, rows, columns)
    pooled = _largest(np.where(absent, 0, image), picture.meaning == "signed", rows, columns)
    if not np.issubdtype(image.dtype, np.integer):
        unseen = np.isnan(image) | (np.isneginf(image) & (picture.meaning != "signed"))
        bad = _pool(np.logical_or, unseen & ~absent, rows, columns)
        pooled = np.where(bad, np.nan, pooled).astype(np.float32)
    pooled_absent = all_absent if picture.absent is not None else None
    return replace(picture, image=pooled, absent=pooled_absent, span=picture.numbers, note=note)


def _limits(picture: Picture, cells: int) -> tuple[int, int]:
    (down, across), side = picture.image.shape, int(cells**0.5)
    if down == across:
        return min(side, BINNED_SIDE), min(side, BINNED_SIDE)
    if down <= side:
        return down, cells // down
    return (cells // across, across) if across <= side else (side, side)


def _bounds(length: int, limit: int) -> np.ndarray:
    bins = min(length, limit)
    return np.arange(bins) * length // bins


def _largest(image: np.ndarray, signed: bool, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    image = np.where(np.isnan(image), 0, image)
    high = _pool(np.maximum, image, rows, columns)
    if not signed:
        return high
    low = _pool(np.minimum, image, rows, columns)
    return np.where(-low > high, low, high)


def _pool(operation: np.ufunc, image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return operation.reduceat(operation.reduceat(image, rows, axis=0), columns, axis=1)

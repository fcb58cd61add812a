"""Large maps made small enough to send: pooled, with the bounds of each cell, and tiled into one image."""

from dataclasses import dataclass

import numpy as np

LIMIT = 128  # cells along one side of a binned map
CELLS = 250_000  # of a mosaic: one byte each is a quarter of a megabyte


@dataclass(frozen=True)
class Binned:
    """A pooled map: cell (i, j) stands for rows[i] : rows[i + 1] and columns[j] : columns[j + 1]."""

    image: np.ndarray
    rows: np.ndarray  # bounds, one more than there are cells
    columns: np.ndarray

    @property
    def exact(self) -> bool:
        """Every cell is one value."""
        return len(self.rows) - 1 == self.rows[-1] and len(self.columns) - 1 == self.columns[-1]


def binned(image: np.ndarray, limit: int = LIMIT, how: str = "max") -> Binned:
    """Pool a map to at most `limit` by `limit` cells by "max" or "mean".

    NaN counts as absent: a cell is NaN only when all of it is.
    """
    if how not in ("max", "mean"):
        raise ValueError(f"maps are pooled by 'max' or 'mean', not {how!r}")
    rows, columns = (bounds(n, limit) for n in image.shape)
    if len(rows) - 1 == image.shape[0] and len(columns) - 1 == image.shape[1]:
        return Binned(image, rows, columns)
    if how == "max" and not np.isnan(image).any():
        return largest(image, limit=limit)
    there = ~np.isnan(image)
    if how == "max":
        pooled = _pool(np.maximum, np.where(there, image, -np.inf), rows, columns)
    else:
        counts = _pool(np.add, there.astype(np.float64), rows, columns)
        pooled = _pool(np.add, np.where(there, image, 0).astype(np.float64), rows, columns)
        pooled /= np.maximum(counts, 1)
    pooled[~_pool(np.logical_or, there, rows, columns)] = np.nan
    return Binned(pooled.astype(np.float32), rows, columns)


def largest(image: np.ndarray, absent: np.ndarray | None = None, limit: int = LIMIT) -> Binned:
    """Pool to the largest value of each cell, whatever is absent apart; a cell with a NaN in it is NaN."""
    rows, columns = (bounds(n, limit) for n in image.shape)
    there = image if absent is None else np.where(absent, -np.inf, image)
    return Binned(_pool(np.maximum, there, rows, columns).astype(np.float32), rows, columns)


def bounds(length: int, limit: int) -> np.ndarray:
    """Bounds of at most `limit` bins over `length` values, sizes differing by one at most."""
    bins = min(length, limit)
    return np.arange(bins + 1) * length // max(bins, 1)


def tile_side(maps: int, cells: int = CELLS) -> int:
    """Side to which each of so many maps is binned so that their mosaic has at most `cells` cells."""
    return max(1, min(LIMIT, int((cells / max(maps, 1)) ** 0.5) - 1))


def mosaic(maps: list[np.ndarray], across: int | None = None) -> tuple[np.ndarray, int]:
    """Maps of one shape side by side in one image, an empty (NaN) line between; and how many stand in a row.

    Map n starts at row n // across * (height + 1), column n % across * (width + 1).
    """
    across = across or int(np.ceil(len(maps) ** 0.5))
    down = -(-len(maps) // across)
    height, width = maps[0].shape
    image = np.full((down * (height + 1) - 1, across * (width + 1) - 1), np.nan, dtype=np.float32)
    for n, map_ in enumerate(maps):
        top, left = n // across * (height + 1), n % across * (width + 1)
        image[top : top + height, left : left + width] = map_
    return image, across


def _pool(operation: np.ufunc, image: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return operation.reduceat(operation.reduceat(image, rows[:-1], axis=0), columns[:-1], axis=1)

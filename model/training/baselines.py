"""What simple means reach on the same bytes: byte models of order n on the same training text, gzip, xz."""

import gzip
import lzma

import numpy as np

ORDERS = (1, 2, 3, 4, 5)
SEPARATOR = "\x00"  # between documents: context for the models, never a byte to predict


def compressed(data: bytes) -> dict[str, float]:
    """Bits per byte of the held-out text by itself."""
    sizes = {"gzip": len(gzip.compress(data, 9)), "xz": len(lzma.compress(data, preset=9))}
    return {name: 8 * size / (len(data) - data.count(0)) for name, size in sizes.items()}


def byte_models(train: bytes, held: bytes) -> dict[str, float]:
    """Bits per byte of held-out text under byte models of each order, counted on `train`.

    Witten-Bell: what a context has not seen is left to the next shorter context; the last resort is uniform.
    """
    seen, read = (np.frombuffer(data, dtype=np.uint8).astype(np.uint64) for data in (train, held))
    probability = np.full(len(read), 1 / 256)
    found = {}
    for order in range(max(ORDERS) + 1):
        probability[order:] = _interpolated(seen, read, order, probability[order:])
        if order in ORDERS:
            found[f"order {order}"] = float(-np.log2(probability[read != 0]).mean())
    return found


def _interpolated(seen: np.ndarray, read: np.ndarray, order: int, shorter: np.ndarray) -> np.ndarray:
    """(count(hc) + kinds(h) p(c | shorter h)) / (count(h) + kinds(h)) at every byte that has a context."""
    grams, counts = np.unique(_grams(seen, order + 1), return_counts=True)
    contexts, first, kinds = np.unique(grams >> np.uint64(8), return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first)
    asked = _grams(read, order + 1)
    count = _looked_up(grams, counts, asked)
    total = _looked_up(contexts, totals, asked >> np.uint64(8))
    kind = _looked_up(contexts, kinds, asked >> np.uint64(8))
    known = total > 0
    mixed = (count + kind * shorter) / np.maximum(total + kind, 1)
    return np.where(known, mixed, shorter)


def _grams(data: np.ndarray, length: int) -> np.ndarray:
    """Every run of `length` bytes as one number."""
    count = max(0, len(data) - length + 1)
    total = np.zeros(count, dtype=np.uint64)
    for i in range(length):
        total = (total << np.uint64(8)) | data[i : i + count]
    return total


def _looked_up(keys: np.ndarray, values: np.ndarray, asked: np.ndarray) -> np.ndarray:
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    return np.where(keys[at] == asked, values[at], 0)

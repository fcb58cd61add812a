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

    Witten-Bell: what a context has no count of is left to the next shorter one; the last resort is uniform.
    """
    counted, read = (np.frombuffer(data, dtype=np.uint8).astype(np.uint64) for data in (train, held))
    probability = np.full(len(read), 1 / 256)
    bits = {}
    for order in range(max(ORDERS) + 1):
        probability[order:] = _interpolated(counted, read, order, probability[order:])
        if order in ORDERS:
            bits[f"order {order}"] = float(-np.log2(probability[read != 0]).mean())
    return bits


def _interpolated(counted: np.ndarray, read: np.ndarray, order: int, shorter: np.ndarray) -> np.ndarray:
    """(count(hc) + kinds(h) p(c | shorter h)) / (count(h) + kinds(h)) at every byte that has a context."""
    grams, counts = np.unique(_grams(counted, order + 1), return_counts=True)
    contexts, first, kinds = np.unique(grams >> np.uint64(8), return_index=True, return_counts=True)
    totals = np.add.reduceat(counts, first)
    queries = _grams(read, order + 1)
    count = _looked_up(grams, counts, queries)
    total = _looked_up(contexts, totals, queries >> np.uint64(8))
    kind = _looked_up(contexts, kinds, queries >> np.uint64(8))
    has_context = total > 0
    mixed = (count + kind * shorter) / np.maximum(total + kind, 1)
    return np.where(has_context, mixed, shorter)


def _grams(data: np.ndarray, length: int) -> np.ndarray:
    """Every run of `length` bytes as one number."""
    count = max(0, len(data) - length + 1)
    total = np.zeros(count, dtype=np.uint64)
    for i in range(length):
        total = (total << np.uint64(8)) | data[i : i + count]
    return total


def _looked_up(keys: np.ndarray, values: np.ndarray, queries: np.ndarray) -> np.ndarray:
    index = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
    return np.where(keys[index] == queries, values[index], 0)

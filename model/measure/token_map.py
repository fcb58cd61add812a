"""A causal map of tokens by tokens as a picture, binned if it is large."""

import numpy as np

from k3scope.model.measure import binning
from k3scope.model.measure.picture import Picture
from k3scope.model.measure.run_view import MeasuredTrace

PIXELS = 512  # side to which a map of one head is binned in a picture


def token_map(
    run: MeasuredTrace, title: str, image: np.ndarray, meaning: str, note: str, value="weight"
) -> Picture:
    """A map of tokens by tokens, binned if it is large; what lies in the future is absent."""
    later = np.triu(np.ones(image.shape, dtype=bool), 1)
    small = binning.largest(image, later, PIXELS)
    if meaning == "signed" and not small.exact:  # the largest value of each cell, whichever its sign
        low = binning.largest(-image, later, PIXELS).image
        small = binning.Binned(np.where(low > small.image, -low, small.image), small.rows, small.columns)
    if not small.exact:
        note += f" {len(image):,} tokens in {len(small.image)} bins; a cell is the largest {value} in it."
    last = len(image) - 1
    more = {
        "rows": run.token_texts,
        "columns": run.token_texts,
        "span": (0, last, 0, last),
        "log": meaning == "share",
    }
    absent = np.triu(np.ones(small.image.shape, dtype=bool), 1)
    more |= {"absent": absent, "meaning": meaning, "note": note}
    shown = image if small.exact else np.where(absent, 0, small.image)
    return run.captioned(Picture(title, shown, "token", "token", value, source=run.source, **more))

"""Image rows between token rows: one placeholder id stands for all rows of an image."""

import torch
from torch import Tensor, nn


class Splice(nn.Module):
    """Put the rows of images where the expanded placeholders stand; text alone passes unchanged."""

    def __init__(self, placeholder: int | None):
        super().__init__()
        self.placeholder = placeholder

    def forward(self, rows: Tensor, ids: Tensor, image_rows: Tensor | None) -> Tensor:
        """rows [B, T, d], ids [B, T] with M expanded placeholders, image_rows [M, d] in reading order."""
        if image_rows is None:
            return rows
        return rows.masked_scatter((ids == self.placeholder)[..., None], image_rows.to(rows))


def expand(
    ids: Tensor, counts: list[int], placeholder: int, pad: int, real: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Repeat the k-th placeholder in `ids` [B, T] `counts[k]` times: the sequence becomes longer.

    Rows that stay shorter are padded on the left. Returns ids and which are no padding (None: all).
    ValueError when placeholders and images are not as many.
    """
    is_image = ids == placeholder
    if (placeholders := int(is_image.sum())) != len(counts):
        raise ValueError(
            f"the prompt has {placeholders} image placeholders for {len(counts)} images; expected one each"
        )
    repeats = torch.ones_like(ids)
    repeats[is_image] = torch.tensor(counts, dtype=ids.dtype, device=ids.device)
    is_real = torch.ones_like(ids, dtype=torch.bool) if real is None else real.bool()
    rows = [row.repeat_interleave(n) for row, n in zip(ids, repeats, strict=True)]
    marks = [mark.repeat_interleave(n) for mark, n in zip(is_real, repeats, strict=True)]
    expanded, marks = _pad_left(rows, pad), _pad_left(marks, False)
    return expanded, None if marks.all() else marks


def _pad_left(rows: list[Tensor], value: int) -> Tensor:
    longest = max(map(len, rows))
    return torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0), value=value) for row in rows])

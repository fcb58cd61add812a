"""What becomes of an image: the pixels that are read, the tower's patches, its rows, who attends to them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from k3scope.model.config import Config
from k3scope.model.measure.attention import heads_of, mla_layers, probs
from k3scope.model.measure.binning import bounds
from k3scope.model.measure.hook_points import array
from k3scope.model.tracing import Trace
from k3scope.model.vision.preprocess import from_patches, target_size
from k3scope.model.vision.tower import Images
from k3scope.model.vision.vision_config import VisionConfig

CELLS = 32_768  # of the attention on one image stored per layer: text tokens are pooled beyond it
PIXELS = 60_000  # of the image as it is shown; a larger one is averaged
_BLOCKS = "vision_tower.encoder.blocks."


@dataclass(frozen=True, eq=False)
class Attended:
    """How much the text after an image reads from it in one layer, mean over the heads."""

    share: np.ndarray  # [readers], of all that a reader attends to
    mean: np.ndarray  # [h / merge, w / merge], over the readers
    bins: np.ndarray  # [bins, h / merge, w / merge], readers in order
    bounds: np.ndarray  # [bins + 1], of the bins in the readers


@dataclass(frozen=True, eq=False)
class ImageReading:
    """One image on its way into the text. h and w count patches."""

    pixels: np.ndarray  # [H, W, 3] uint8, averaged when large; padding included
    size: tuple[int, int]  # width and height of the picture as it came
    inside: tuple[float, float]  # height and width without the padding, in patches
    stages: np.ndarray  # [vit_layers + 1, h, w], RMS of each patch's vector: embedded, then after each block
    rows: np.ndarray  # [h / merge, w / merge], RMS of each row before the projector's norm
    start: int  # token at which its rows begin
    readers: np.ndarray  # text tokens after it
    attended: dict[int, Attended]  # by MLA layer

    @property
    def tokens(self) -> range:
        """The tokens that are its rows."""
        return range(self.start, self.start + self.rows.size)

    def read_by(self, layer: int, token: int | None) -> np.ndarray:
        """Attention on each row: of the bin a token is in, or the mean of all readers."""
        attended = self.attended[layer]
        at = np.flatnonzero(self.readers == token)
        if token is None or not at.size:
            return attended.mean
        return attended.bins[np.searchsorted(attended.bounds, at[0], side="right") - 1]


def points(config: Config) -> list[str]:
    """Hook points that this reducer reads, besides those of attention."""
    blocks = [f"{_BLOCKS}{n}" for n in range(config.vision.layers)]
    return ["vision_tower.patch_embed", *blocks, "mm_projector.proj"]


@torch.no_grad()
def image_readings(
    trace: Trace, images: Images, sizes: Sequence[tuple[int, int]], config: Config
) -> tuple[ImageReading, ...]:
    """Reduce a trace of one prompt. `sizes`: width and height of each image as it came; no clips."""
    vit, ids = config.vision, trace.ids[0]
    is_row = ids == config.media_pad
    starts = np.cumsum([0, *images.rows(vit)])
    placed = is_row.nonzero()[:, 0].tolist()
    stages = torch.stack([_rms(trace.values[p]) for p in points(config)[:-1]])  # [vit_layers + 1, N]
    rows = _rms(trace.values["mm_projector.proj"])
    parts = zip(
        images.grids,
        images.patches.split(images.lengths),
        stages.split(images.lengths, 1),
        rows.split(images.rows(vit)),
        strict=True,
    )
    readings = []
    for n, ((_, h, w), patches, stage, row) in enumerate(parts):
        first, merged = placed[starts[n]], (h // vit.merge, w // vit.merge)
        readers = [i for i in range(first + len(row), len(ids)) if not is_row[i]]
        readings.append(
            ImageReading(
                pixels=_shown(from_patches(patches, (1, h, w))[0], vit.patch),
                size=sizes[n],
                inside=_inside(sizes[n], vit),
                stages=array(stage.unflatten(1, (h, w))),
                rows=array(row.unflatten(0, merged)),
                start=first,
                readers=np.array(readers, dtype=np.int64),
                attended=_attended(trace, readers, first, merged) if readers else {},
            )
        )
    return tuple(readings)


def _attended(trace: Trace, readers: list[int], first: int, merged: tuple[int, int]) -> dict[int, Attended]:
    return {layer: _in_layer(trace, layer, readers, first, merged) for layer in mla_layers(trace)}


def _in_layer(trace: Trace, layer: int, readers: list[int], first: int, merged: tuple[int, int]) -> Attended:
    count, heads = merged[0] * merged[1], heads_of(trace, layer)
    at = torch.tensor(readers) - readers[0]
    total = torch.zeros(len(readers), count, dtype=torch.float64)
    for head in range(heads):
        p = probs(trace, layer, head, slice(readers[0], None))
        total += p[at.to(p.device), first : first + count].double().cpu()
    weights = (total / heads).numpy()
    edges = bounds(len(readers), max(1, CELLS // count))
    pooled = np.add.reduceat(weights, edges[:-1], axis=0) / np.diff(edges)[:, None]
    return Attended(
        share=weights.sum(1).astype(np.float32),
        mean=weights.mean(0).reshape(merged).astype(np.float32),
        bins=pooled.reshape(-1, *merged).astype(np.float32),
        bounds=edges,
    )


def _rms(x: Tensor) -> Tensor:
    return x.double().square().mean(-1).sqrt()


def _inside(size: tuple[int, int], vit: VisionConfig) -> tuple[float, float]:
    width, height = target_size(*size, vit.patch, vit.max_side)
    return height / vit.patch, width / vit.patch


def _shown(pixels: np.ndarray, patch: int) -> np.ndarray:
    """Pixels averaged in squares that divide a patch, until they are few enough to send."""
    height, width = pixels.shape[:2]
    steps = [n for n in range(1, patch + 1) if patch % n == 0]
    step = next((n for n in steps if height * width <= PIXELS * n * n), patch)
    if step == 1:
        return pixels
    squares = pixels.reshape(height // step, step, width // step, step, 3)
    return squares.mean((1, 3)).round().astype(np.uint8)

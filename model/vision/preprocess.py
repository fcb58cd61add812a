"""Images to patches: size, padding, transparency and normalisation as the released processor does them."""

import io
import math
import struct
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from k3scope.model.vision.tower import Images
from k3scope.model.vision.vision_config import VisionConfig

MOST_PATCHES = 65536  # of one image; larger ones are scaled down
# Refused before decoding: a small file can claim a huge image. The tower reads 12.8 million pixels at most.
MOST_PIXELS = 25 * 2**20
LONGEST_SIDE = 20_000
SQUARE, LIGHT, DARK = 8, 255, 180  # the chessboard behind transparent pixels
RESAMPLE = Image.Resampling.BICUBIC
MEAN = STD = 0.5  # of pixels between 0 and 1
# what decides the numbers of an image besides the sizes of the tower
SETTINGS = {
    "patches": MOST_PATCHES,
    "board": [SQUARE, LIGHT, DARK],
    "scale": RESAMPLE.name,
    "mean": MEAN,
    "std": STD,
}
ImageSource = Image.Image | np.ndarray | str | Path | bytes


def read(source: ImageSource, formats: Sequence[str] | None = None) -> Image.Image:
    """A decoded image from a file, its bytes, or an array [H, W], [H, W, 3] or [H, W, 4] of uint8.

    `formats`: the ones that are taken, by their names in Pillow. ValueError gives the reason when it is none.
    """
    if isinstance(source, np.ndarray):
        return _of_array(source)
    if isinstance(source, Image.Image):
        _check_size(source)
        return source
    name = "the image" if isinstance(source, bytes) else str(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            image = Image.open(file, formats=formats)
            _check_size(image)
            image.load()
    except FileNotFoundError:
        raise ValueError(f"{name}: no such file") from None
    except UnidentifiedImageError:
        raise ValueError(f"{name}: not an image in a known format") from None
    except Image.DecompressionBombError:
        raise ValueError(f"{name}: more than {MOST_PIXELS:,} pixels") from None
    except (OSError, SyntaxError, struct.error) as error:
        raise ValueError(f"{name}: broken image ({error})") from None
    except MemoryError:
        raise ValueError(f"{name}: it takes more memory than there is for it") from None
    return image


def prepare(images: Sequence[ImageSource | Sequence[ImageSource]], vit: VisionConfig) -> Images:
    """Patches of images, and of clips where an entry is a list of frames. ValueError for a bad image."""
    items = [_item(p if isinstance(p, list | tuple) else [p], vit) for p in images]
    if not items:
        raise ValueError("there are no images; expected at least one")
    return Images(torch.cat([patches for patches, _ in items]), tuple(grid for _, grid in items))


def prompt_text(images: Sequence[Image.Image]) -> str:
    """What stands in a prompt for images: special tokens around the size, and one placeholder each."""
    sizes = ("{}x{}".format(*image.size) for image in images)
    return "".join(
        f"<|media_begin|>image {size}<|media_content|><|media_pad|><|media_end|>" for size in sizes
    )


def target_size(width: int, height: int, patch: int = 14, max_side: int = 512) -> tuple[int, int]:
    """Width and height after scaling: never up, at most MOST_PATCHES patches and `max_side` on a side."""
    patches = max(1, width // patch) * max(1, height // patch)
    longest = max_side * patch
    scale = min(1.0, math.sqrt(MOST_PATCHES / patches), longest / width, longest / height)
    return max(1, int(width * scale)), max(1, int(height * scale))


def to_pixels(image: Image.Image, vit: VisionConfig) -> np.ndarray:
    """Scaled, laid over the chessboard where transparent, zero-padded right and below: [H, W, 3] uint8."""
    clear = image.has_transparency_data
    image = image.convert("RGBA" if clear else "RGB")
    size = target_size(*image.size, vit.patch, vit.max_side)
    if size != image.size:
        image = image.resize(size, RESAMPLE)
    pixels = _over_chessboard(np.asarray(image)) if clear else np.asarray(image)
    down, right = (-side % vit.pixels for side in pixels.shape[:2])
    return np.pad(pixels, ((0, down), (0, right), (0, 0)))


def to_patches(pixels: np.ndarray, patch: int = 14) -> Tensor:
    """[H, W, 3] uint8 to [H * W / patch^2, 3, patch, patch] in [-1, 1], row by row."""
    values = (torch.from_numpy(pixels.copy()).float() / 255 - MEAN) / STD
    h, w = (side // patch for side in pixels.shape[:2])
    return values.view(h, patch, w, patch, 3).permute(0, 2, 4, 1, 3).reshape(h * w, 3, patch, patch)


def from_patches(patches: Tensor, grid: tuple[int, int, int]) -> np.ndarray:
    """The pixels that a tower reads, to look at: frames [t, H, W, 3] uint8."""
    t, h, w = grid
    patch = patches.shape[-1]
    frames = patches.view(t, h, w, 3, patch, patch).permute(0, 1, 4, 2, 5, 3)
    frames = frames.reshape(t, h * patch, w * patch, 3)
    return ((frames * STD + MEAN) * 255).round().clamp(0, 255).to(torch.uint8).numpy()


def _item(frames: Sequence[ImageSource], vit: VisionConfig) -> tuple[Tensor, tuple[int, int, int]]:
    if not 1 <= len(frames) <= vit.frames:
        raise ValueError(f"a clip has {len(frames)} frames; expected 1 to {vit.frames}")
    pixels = [to_pixels(read(frame), vit) for frame in frames]
    if len(sizes := {p.shape for p in pixels}) > 1:
        raise ValueError(f"the frames of a clip have different sizes: {sorted(s[:2] for s in sizes)}")
    h, w = (side // vit.patch for side in pixels[0].shape[:2])
    return torch.cat([to_patches(p, vit.patch) for p in pixels]), (len(frames), h, w)


def _over_chessboard(pixels: np.ndarray) -> np.ndarray:
    """Blend [H, W, 4] uint8 over light and dark squares."""
    y, x = np.indices(pixels.shape[:2]) // SQUARE
    board = np.where((x + y) % 2 == 0, LIGHT, DARK)[..., None]
    alpha = pixels[..., 3:].astype(np.float64) / 255
    return (pixels[..., :3] * alpha + board * (1 - alpha)).round().astype(np.uint8)


def _of_array(array: np.ndarray) -> Image.Image:
    grey, colour = array.ndim == 2, array.ndim == 3 and array.shape[2] in (3, 4)
    if array.dtype != np.uint8 or not (grey or colour) or 0 in array.shape:
        raise ValueError(
            f"an image of shape {array.shape} and type {array.dtype}; "
            f"expected uint8 [H, W], [H, W, 3] or [H, W, 4] with at least one pixel"
        )
    image = Image.fromarray(array)
    _check_size(image)
    return image


def _check_size(image: Image.Image) -> None:
    width, height = image.size
    if width < 1 or height < 1:
        raise ValueError(f"an image of {width} x {height} pixels; expected at least one")
    if width * height > MOST_PIXELS:
        raise ValueError(f"an image of {width} x {height} pixels; at most {MOST_PIXELS:,} are read")
    if max(width, height) > LONGEST_SIDE:
        raise ValueError(f"an image of {width} x {height} pixels; a side has at most {LONGEST_SIDE:,}")

"""Pictures become the patches that the released processor makes."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from k3scope.model.vision.preprocess import from_patches, prepare, read, target_size, to_patches, to_pixels
from k3scope.model.vision.vision_config import VisionConfig

VIT = VisionConfig(d=24, layers=1, heads=3, qkv=36, mlp=40)


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def png(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize(
    ("width", "height", "rows"), [(224, 224, 64), (611, 437, 352), (1920, 1080, 2691), (1, 1, 1), (28, 29, 2)]
)
def test_an_image_becomes_the_published_number_of_rows(width, height, rows):
    images = prepare([Image.new("RGB", (width, height))], VIT)
    assert images.rows(VIT) == [rows]
    assert len(images.patches) == 4 * rows


@pytest.mark.parametrize(
    ("size", "target"),
    [
        ((3584, 3584), (3584, 3584)),  # 256 x 256 patches: exactly the limit
        ((7168, 7168), (3584, 3584)),
        ((14000, 14), (7168, 7)),  # the longest side is 512 patches
        ((14, 14000), (7, 7168)),
        ((100_000, 5), (7167, 1)),  # the product is cut, not rounded
        ((10, 10), (10, 10)),  # never scaled up
    ],
)
def test_large_images_are_scaled_down(size, target):
    assert target_size(*size) == target


def test_padding_is_black_and_on_the_right_and_below():
    pixels = to_pixels(Image.new("RGB", (30, 20), (200, 100, 50)), VIT)
    assert pixels.shape == (28, 56, 3)
    assert (pixels[:20, :30] == (200, 100, 50)).all()
    assert not pixels[20:].any()
    assert not pixels[:, 30:].any()


def test_patches_come_row_by_row_with_channels_first():
    pixels = noise(28, 56)
    patches = to_patches(pixels)
    assert patches.shape == (8, 3, 14, 14)
    for n in range(8):
        y, x = 14 * (n // 4), 14 * (n % 4)
        expected = (torch.from_numpy(pixels[y : y + 14, x : x + 14]).permute(2, 0, 1) / 255 - 0.5) / 0.5
        torch.testing.assert_close(patches[n], expected)


def test_patches_show_the_pixels_again():
    frames = [noise(56, 28, seed=n) for n in range(3)]
    images = prepare([frames], VIT)
    assert images.grids == ((3, 4, 2),)
    assert np.array_equal(from_patches(images.patches, images.grids[0]), np.stack(frames))


def test_values_run_from_minus_one_to_one():
    assert to_patches(np.zeros((14, 14, 3), np.uint8)).unique().tolist() == [-1]
    assert to_patches(np.full((14, 14, 3), 255, np.uint8)).unique().tolist() == [1]


def test_a_chessboard_shows_through_transparent_pixels():
    clear = Image.new("RGBA", (28, 28), (10, 20, 30, 0))
    clear.putpixel((0, 0), (10, 20, 30, 255))
    pixels = to_pixels(clear, VIT)
    assert pixels[0, 0].tolist() == [10, 20, 30]
    assert pixels[0, 1].tolist() == pixels[9, 9].tolist() == [255, 255, 255]
    assert pixels[0, 8].tolist() == pixels[8, 7].tolist() == [180, 180, 180]


def test_half_transparent_pixels_are_blended():
    assert to_pixels(Image.new("RGBA", (28, 28), (0, 0, 0, 128)), VIT)[0, 0].tolist() == [127, 127, 127]


@pytest.mark.parametrize("mode", ["L", "1", "LA", "P", "CMYK", "I;16", "RGBA"])
def test_every_mode_becomes_three_channels(mode):
    assert to_pixels(Image.new(mode, (28, 28)), VIT).shape == (28, 28, 3)


def test_a_file_its_bytes_and_its_array_are_the_same_image(tmp_path):
    array = noise(28, 28)
    path = tmp_path / "a.png"
    path.write_bytes(png(array))
    for source in (path, str(path), png(array), Image.fromarray(array)):
        assert torch.equal(prepare([source], VIT).patches, prepare([array], VIT).patches)


def test_several_items_are_packed_one_after_the_other():
    images = prepare([noise(28, 28), [noise(28, 56), noise(28, 56)]], VIT)
    assert images.grids == ((1, 2, 2), (2, 2, 4))
    assert images.lengths == [4, 16]
    assert images.rows(VIT) == [1, 2]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (b"", "not an image in a known format"),
        (b"hello", "not an image in a known format"),
        (png(noise(60, 60))[:2000], "broken image"),
        ("no/such/file.png", "no such file"),
        (np.zeros((0, 5, 3), np.uint8), "at least one pixel"),
        (np.zeros((4, 5, 2), np.uint8), "shape \\(4, 5, 2\\)"),
        (np.zeros((4, 5, 3)), "type float64"),
    ],
    ids=["empty", "text", "truncated", "missing", "no pixels", "two channels", "floats"],
)
def test_what_is_no_image_is_refused(source, sentence):
    with pytest.raises(ValueError, match=sentence):
        read(source)


def test_a_huge_image_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr("k3scope.model.vision.preprocess.MOST_PIXELS", 3000)
    assert read(png(noise(50, 60))).size == (60, 50)
    with pytest.raises(ValueError, match="60 x 51 pixels; at most 3,000"):
        read(png(noise(51, 60)))


def test_a_side_is_bounded_too():
    with pytest.raises(ValueError, match="20001 x 1 pixels; a side has at most 20,000"):
        read(png(np.zeros((1, 20_001, 3), np.uint8)))
    assert read(png(np.zeros((1, 20_000, 3), np.uint8))).size == (20_000, 1)


def test_no_images_and_wrong_clips_are_refused():
    with pytest.raises(ValueError, match="there are no images"):
        prepare([], VIT)
    with pytest.raises(ValueError, match="a clip has 5 frames; expected 1 to 4"):
        prepare([[noise(28, 28)] * 5], VIT)
    with pytest.raises(ValueError, match="different sizes"):
        prepare([[noise(28, 28), noise(28, 56)]], VIT)

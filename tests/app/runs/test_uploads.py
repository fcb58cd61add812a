"""Pictures that visitors add: what is taken, what is refused and why, what comes with the program."""

import contextlib
import io
import zlib

import numpy as np
import pytest
from PIL import Image

from k3scope.app.runs.uploads import COMFORTABLE, MOST_BYTES, SAMPLES, accept, fitting, sample
from k3scope.assets import samples
from k3scope.model.presets import K3_TINY
from k3scope.model.vision.preprocess import prepare
from k3scope.model.vision.vision_config import VisionConfig

VIT = VisionConfig(d=24, layers=1, heads=3, qkv=36, mlp=40)


def encoded(picture: Image.Image, form: str = "PNG", **more) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **more)
    return out.getvalue()


def claiming(width: int, height: int) -> bytes:
    """A tiny PNG whose header promises many pixels."""
    whole = bytearray(encoded(Image.new("RGB", (1, 1))))
    whole[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    whole[29:33] = zlib.crc32(bytes(whole[12:29])).to_bytes(4, "big")
    return bytes(whole)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_common_formats_are_taken(form):
    image = accept("a file", encoded(samples.shapes(), form))
    assert image.size == (224, 168)
    assert image.thumb.startswith("data:image/png;base64,")
    assert not image.note


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "x: not an image in a known format."),
        (b"just text", "x: not an image in a known format."),
        (encoded(samples.shapes(), "EPS"), "x: not an image in a known format."),  # would start a program
        (encoded(samples.shapes(), "JPEG")[:900], "x: broken image"),
        (encoded(samples.shapes())[:300], "x: broken image"),
        (claiming(20_000, 20_000), "x: .*pixels"),
        (b"\0" * (MOST_BYTES + 1), "x has 8.0 MB; an image here has at most 8 MB."),
    ],
    ids=["nothing", "text", "postscript", "half a JPEG", "half a PNG", "a bomb", "too large a file"],
)
def test_what_is_no_picture_is_refused_with_its_name(data, sentence):
    with pytest.raises(ValueError, match=sentence):
        accept("x", data)


def test_any_damage_ends_in_a_sentence():
    turns = [samples.shapes().resize((48, 36)).rotate(90 * n) for n in range(3)]
    whole = encoded(turns[0], "GIF", save_all=True, append_images=turns[1:])
    random = np.random.default_rng(0)
    for _ in range(150):
        broken = np.frombuffer(whole, np.uint8).copy()
        broken[random.integers(len(broken), size=5)] = random.integers(256, size=5)
        with contextlib.suppress(ValueError):  # and nothing else
            accept("x", broken.tobytes())


def test_of_a_moving_picture_the_first_frame_is_read_and_this_is_said():
    frames = [Image.new("RGB", (28, 28), colour) for colour in ("red", "blue")]
    image = accept("moving", encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert image.note == "first frame only"
    still = prepare([frames[0]], VIT)
    assert (prepare([image.data], VIT).patches == still.patches).all()


@pytest.mark.parametrize("size", [(1, 1), (28, 29), (150, 100), (611, 437), (1920, 1080), (7000, 3)])
def test_rows_are_known_without_making_patches(size):
    image = accept("x", encoded(Image.new("L", size)))
    assert image.rows(VIT) == prepare([image.data], VIT).rows(VIT)[0]


@pytest.mark.parametrize("size", [(1920, 1080), (5000, 5000), (9000, 200), (30, 30)])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_image_is_scaled_down_until_it_leaves_room_for_text(size, mode):
    image = accept("large", encoded(Image.new(mode, size)))
    smaller = fitting(image, VIT)
    assert smaller.rows(VIT) <= COMFORTABLE
    if image.rows(VIT) <= COMFORTABLE:
        assert smaller is image
    else:
        assert smaller.rows(VIT) > 0.8 * COMFORTABLE
        assert smaller.note == "scaled down"
        assert smaller.sha != image.sha
        assert smaller.size[0] / smaller.size[1] == pytest.approx(size[0] / size[1], rel=0.02)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_samples_are_what_their_script_draws(name):
    file = samples.path(name)
    assert file.stat().st_size < 4096
    with Image.open(file) as kept:
        assert np.array_equal(np.asarray(kept), np.asarray(samples.DRAWN[name]()))
    assert 0 < sample(name).rows(K3_TINY.vision) < 100


def test_an_unknown_sample_names_those_there_are():
    with pytest.raises(ValueError, match="there are shapes, ramp, ring"):
        sample("../secret")

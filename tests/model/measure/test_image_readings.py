"""What is read off a pass with images equals what its trace says."""

import numpy as np
import pytest
import torch

from k3scope.assets import samples
from k3scope.model import trace
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.measure import image_readings as module
from k3scope.model.measure.image_readings import image_readings
from k3scope.model.vision.preprocess import prepare, prompt_text


@pytest.fixture(scope="module")
def seen(tiny):
    """A trace of two pictures and a text, and its readings."""
    pictures = [samples.ring(), samples.shapes().crop((0, 0, 60, 50))]
    tokenizer = tokenizer_of("k3-random", tiny.config.vocab)
    ids = tokenizer.encode(prompt_text(pictures), specials=True) + tokenizer.encode("and why?")
    images = prepare(pictures, tiny.config.vision)
    passed = trace(tiny, torch.tensor(ids), images=images)
    return passed, image_readings(passed, images, [p.size for p in pictures], tiny.config)


def test_every_image_knows_its_tokens(seen, tiny):
    passed, result = seen
    placed = (passed.ids[0] == tiny.config.media_pad).nonzero()[:, 0].tolist()
    assert [t for image in result for t in image.tokens] == placed
    assert [image.rows.shape for image in result] == [(4, 6), (2, 3)]
    assert [image.size for image in result] == [(150, 100), (60, 50)]


def test_readers_are_the_text_after_an_image_and_not_the_rows_of_another(seen):
    passed, (first, second) = seen
    last = passed.ids.shape[1] - 1
    assert first.readers[0] == first.tokens[-1] + 1
    assert first.readers[-1] == second.readers[-1] == last
    assert not set(second.tokens) & set(first.readers.tolist())
    assert set(second.readers.tolist()) < set(first.readers.tolist())


def test_attention_is_the_mean_over_the_heads_of_the_recorded_probabilities(seen):
    passed, result = seen
    for image in result:
        assert list(image.attended) == [3, 7, 8]
        for layer, attended in image.attended.items():
            probs = passed.layer(layer, "self_attn.attention.probs")[0].mean(0)
            expected = probs[image.readers][:, list(image.tokens)].numpy()
            np.testing.assert_allclose(attended.share, expected.sum(1), rtol=1e-4)
            np.testing.assert_allclose(attended.mean.ravel(), expected.mean(0), rtol=1e-4)
            token = int(image.readers[2])
            np.testing.assert_allclose(image.read_by(layer, token).ravel(), expected[2], rtol=1e-4)
            np.testing.assert_array_equal(image.read_by(layer, None), attended.mean)
            np.testing.assert_array_equal(image.read_by(layer, image.start), attended.mean)


def test_many_readers_are_pooled_in_order(seen, tiny, monkeypatch):
    passed, (image, _) = seen
    monkeypatch.setattr(module, "CELLS", 3 * image.rows.size)
    pooled = module._in_layer(passed, 3, image.readers.tolist(), image.start, image.rows.shape)
    exact = image.attended[3]
    assert len(pooled.bins) == 3
    at, to = pooled.bounds[1:3]
    np.testing.assert_allclose(pooled.bins[1], exact.bins[at:to].mean(0), rtol=1e-5)
    np.testing.assert_array_equal(pooled.mean, exact.mean)


def test_sizes_are_those_of_the_tower_and_of_the_projector(seen, tiny):
    passed, (image, _) = seen
    last = passed.values["vision_tower.encoder.blocks.2"][: image.stages[0].size]
    rms = last.double().square().mean(-1).sqrt().view(8, 12).numpy()
    np.testing.assert_allclose(image.stages[-1], rms, rtol=1e-6)
    assert image.stages.shape == (tiny.config.vision.layers + 1, 8, 12)
    rows = passed.values["mm_projector.proj"][: image.rows.size].double().square().mean(-1).sqrt()
    np.testing.assert_allclose(image.rows.ravel(), rows.numpy(), rtol=1e-6)


def test_padding_is_part_of_the_pixels_and_its_place_is_known(seen):
    _, (image, _) = seen
    assert image.pixels.shape == (112, 168, 3)
    assert not image.pixels[100:].any()
    assert image.inside == (100 / 14, 150 / 14)


@pytest.mark.parametrize(("height", "width", "step"), [(112, 168, 1), (280, 392, 2), (1260, 1260, 7)])
def test_large_pixels_are_averaged_in_parts_of_a_patch(height, width, step):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    shown = module._shown(pixels, 14)
    assert shown.shape == (height // step, width // step, 3)
    assert shown.shape[0] * shown.shape[1] <= module.PIXELS
    np.testing.assert_allclose(shown[0, 0], pixels[:step, :step].mean((0, 1)), atol=0.51)

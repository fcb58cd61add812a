"""The vision half inside the whole model: config, counts, names, and images in a prompt."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from k3scope.assets import CONFIGS
from k3scope.model import load, meta, trace
from k3scope.model.accounting import count, totals
from k3scope.model.checkpoint.save import save_pretrained
from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.config import Config
from k3scope.model.vision.preprocess import prepare
from k3scope.model.vision.tower import Images


@pytest.fixture
def official():
    return json.loads((CONFIGS / "kimi-k3.json").read_text())


def test_the_official_file_gives_the_released_tower(official):
    vit = Config.from_official(official).vision
    assert (vit.d, vit.layers, vit.heads, vit.head_dim, vit.mlp) == (1024, 27, 12, 128, 4096)
    assert (vit.grid, vit.frames, vit.patch, vit.merge) == (64, 4, 14, 2)
    assert (vit.eps, vit.projector_eps) == (1.1920929e-07, 1e-5)


@pytest.mark.parametrize("key", ["vt_hidden_size", "merge_kernel_size", "mm_hidden_size", "norm_type"])
def test_a_missing_vision_key_is_named(official, key):
    del official["vision_config"][key]
    with pytest.raises(ValueError, match=key):
        Config.from_official(official)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("attn_bias", True, "attn_bias is True; only False"),
        ("text_hidden_size", 4096, "text_hidden_size is 4096, but hidden_size is 7168"),
        ("init_pos_emb_width", 32, "init_pos_emb_width is 32, but init_pos_emb_height is 64"),
        ("merge_kernel_size", [2, 1], "only squares"),
        ("qkv_hidden_size", 1530, "head width divisible by 4"),
        ("vt_num_hidden_layers", 0, "expected at least 1"),
    ],
)
def test_a_vision_config_that_cannot_be_is_refused(official, key, value, sentence):
    official["vision_config"][key] = value
    with pytest.raises(ValueError, match=sentence):
        Config.from_official(official)


def test_a_tower_needs_the_id_of_the_placeholder(official):
    del official["media_placeholder_token_id"]
    with pytest.raises(ValueError, match="media_placeholder_token_id"):
        Config.from_official(official)


def test_the_released_tower_has_the_published_counts(full):
    assert count(full.vision_tower) == 401_214_464
    assert count(full.mm_projector) == 46_144_512
    t = totals(full)
    assert (t.vision, t.total) == (447_358_976, 2_779_931_837_184)
    assert t.active == 104_189_614_848  # of the text
    assert (t.difference("kimi-k3").tensors, t.difference("kimi-k3").bytes) == (0, 0)


def test_the_small_public_model_has_its_published_counts():
    model = meta("kimi-k3-0.40b")
    assert (count(model.vision_tower), count(model.mm_projector)) == (4_870_400, 2_098_176)


def test_the_tower_has_the_official_names(full):
    layout = Layout(full, full.config)
    names = [e.name for e in layout.entries.values() if not e.name.startswith("language_model.")]
    assert len(names) == 165 + 3
    assert all(e.dtype == "BF16" for e in layout.entries.values() if e.name in names)
    block = [f"vision_tower.encoder.blocks.26.{leaf}.weight" for leaf in BLOCK]
    assert {*NAMES, *block} <= set(names)


BLOCK = ("wqkv", "wo", "mlp.fc0", "mlp.fc1", "norm0", "norm1")
NAMES = (
    "vision_tower.patch_embed.proj.weight", "vision_tower.patch_embed.pos_emb.weight",
    "vision_tower.encoder.final_layernorm.weight", "mm_projector.proj.0.weight",
    "mm_projector.proj.2.weight", "mm_projector.post_norm.weight",
)  # fmt: skip


def picture(tiny, *sizes: tuple[int, int]) -> Images:
    """Images of noise, of [height, width] pixels, for the small model."""
    generator = torch.Generator().manual_seed(4)
    draw = [torch.randint(0, 256, (*size, 3), generator=generator, dtype=torch.uint8) for size in sizes]
    return prepare([d.numpy() for d in draw], tiny.config.vision)


def test_an_image_grows_the_sequence_and_stands_in_it(tiny):
    pad = tiny.config.media_pad
    run = trace(tiny, torch.tensor([[1, pad, 2]]), images=picture(tiny, (56, 84)))
    assert run.ids.tolist() == [[1, *[pad] * 6, 2]]
    assert run.logits.shape == (1, 8, tiny.config.vocab)
    spliced = run.values["language_model.model.splice"]
    assert torch.equal(spliced[0, 1:7], run.values["mm_projector"])
    assert torch.equal(spliced[0, [0, 7]], run.values["language_model.model.embed_tokens"][0, [0, 7]])


def test_rows_of_a_batch_are_the_single_runs(tiny):
    pad, model = tiny.config.media_pad, load("k3-random", torch.float64)
    images = picture(tiny, (28, 28), (56, 84))
    together = model(torch.tensor([[7, pad], [pad, 9]]), images=images)
    apart = [picture(tiny, (28, 28), (56, 84)) for _ in range(2)]
    first = Images(apart[0].patches[:4], apart[0].grids[:1])
    second = Images(apart[1].patches[4:], apart[1].grids[1:])
    one, two = model(torch.tensor([[7, pad]]), images=first), model(torch.tensor([[pad, 9]]), images=second)
    torch.testing.assert_close(together[0, -2:], one[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(together[1], two[0], rtol=0, atol=1e-12)


def test_decoding_continues_after_an_image(tiny):
    pad, model = tiny.config.media_pad, load("k3-random", torch.float64)
    images, cache = picture(tiny, (28, 56)), model.new_cache()
    full = model(torch.tensor([[1, pad, 2, 3]]), images=images)
    begin = model(torch.tensor([[1, pad]]), cache, images=images)
    rest = [model(torch.tensor([[i]]), cache) for i in (2, 3)]
    torch.testing.assert_close(torch.cat([begin, *rest], 1), full, rtol=0, atol=1e-12)


def test_a_model_without_a_tower_is_reported(tiny):
    blind = meta("k3-random")
    blind.config = replace(blind.config, vision=None)
    with pytest.raises(ValueError, match="no vision tower"):
        blind.expand(torch.tensor([[1]]), picture(tiny, (28, 28)))


def test_a_saved_model_sees_the_same(tiny, tmp_path):
    save_pretrained(tiny, tmp_path / "saved", dtype=torch.float32)
    again = load(str(tmp_path / "saved"))
    assert again.config.vision == tiny.config.vision
    ids = torch.tensor([[1, tiny.config.media_pad, 2]])
    images = picture(tiny, (56, 84))
    assert torch.equal(again(ids, images=images), tiny(ids, images=images))


def test_a_checkpoint_without_the_tower_its_config_has_is_refused(tiny, tmp_path):
    save_pretrained(tiny, tmp_path / "saved", dtype=torch.float32)
    file = tmp_path / "saved" / "model.safetensors"
    save_file({n: t for n, t in load_file(file).items() if not n.startswith("vision_tower.")}, file)
    with pytest.raises(ValueError, match="vision_tower"):
        load(str(tmp_path / "saved"))

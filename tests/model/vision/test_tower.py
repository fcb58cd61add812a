"""The tower and the projector against a second implementation, written with loops and sharing no code."""

import math

import pytest
import torch

from k3scope.model.vision.projector import Projector
from k3scope.model.vision.splice import Splice, expand
from k3scope.model.vision.tower import Images, VisionTower
from k3scope.model.vision.vision_block import PATTERN_PATCHES
from k3scope.model.vision.vision_config import VisionConfig

VIT = VisionConfig(d=24, layers=2, heads=3, qkv=36, mlp=40, grid=6)
WIDTH = 20  # of the text


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    """Float64 weights of tower and projector, of a size that makes every part matter."""
    generator = torch.Generator().manual_seed(3)
    shapes = {n: p.shape for m in _modules() for n, p in m.named_parameters()}
    draw = {n: torch.randn(s, generator=generator, dtype=torch.float64) for n, s in shapes.items()}
    return {n: 1 + 0.3 * w if "norm" in n else w * 0.2 for n, w in draw.items()}


def _modules():
    return VisionTower(VIT), Projector(VIT, WIDTH)


def images_of(*grids: tuple[int, int, int], seed: int = 1) -> Images:
    count = sum(t * h * w for t, h, w in grids)
    generator = torch.Generator().manual_seed(seed)
    patches = torch.rand(count, 3, VIT.patch, VIT.patch, generator=generator, dtype=torch.float64) * 2 - 1
    return Images(patches, grids)


def ours(weights: dict, images: Images, dtype: torch.dtype) -> torch.Tensor:
    tower, projector = _modules()
    for module in (tower, projector):
        module.to(dtype).load_state_dict({n: weights[n] for n, _ in module.named_parameters()})
    with torch.no_grad():
        return projector(tower(images))


# The second implementation: lists of vectors, one patch at a time.


def naive(w: dict, images: Images) -> torch.Tensor:
    rows, start = [], 0
    for t, h, width in images.grids:
        rows += naive_item(w, images.patches[start : start + t * h * width], t, h, width)
        start += t * h * width
    return torch.stack(rows)


def naive_item(w: dict, patches: torch.Tensor, t: int, h: int, width: int) -> list[torch.Tensor]:
    kernel = w["patch_embed.proj.weight"]
    positions = [(f, y, x) for f in range(t) for y in range(h) for x in range(width)]
    stream = []
    for patch, (f, y, x) in zip(patches, positions, strict=True):
        vector = torch.stack([(patch * kernel[o]).sum() for o in range(len(kernel))])
        vector = vector + naive_position(w["patch_embed.pos_emb.weight"], h, width, y, x)
        if t > 1:
            vector = vector + naive_time(f, len(kernel))
        stream.append(vector)
    for block in range(VIT.layers):
        stream = naive_block(w, f"encoder.blocks.{block}.", stream, positions)
    stream = [naive_norm(v, w["encoder.final_layernorm.weight"], 1.1920929e-07) for v in stream]
    at = dict(zip(positions, stream, strict=True))
    rows = []
    for y in range(0, h, 2):
        for x in range(0, width, 2):
            corners = [(y, x), (y, x + 1), (y + 1, x), (y + 1, x + 1)]
            rows.append(torch.cat([sum(at[f, *corner] for f in range(t)) / t for corner in corners]))
    return [naive_project(w, row) for row in rows]


def naive_position(table: torch.Tensor, h: int, width: int, y: int, x: int) -> torch.Tensor:
    """Bilinear look-up with half-pixel centres, clamped at the border."""

    def corners(i: int, size: int, cells: int) -> tuple[int, int, float]:
        place = max((i + 0.5) * cells / size - 0.5, 0.0)
        low = min(int(place), cells - 1)
        return low, min(low + 1, cells - 1), place - low

    top, bottom, down = corners(y, h, table.shape[0])
    left, right, across = corners(x, width, table.shape[1])
    upper = table[top, left] * (1 - across) + table[top, right] * across
    lower = table[bottom, left] * (1 - across) + table[bottom, right] * across
    return upper * (1 - down) + lower * down


def naive_time(frame: int, d: int) -> torch.Tensor:
    half = d // 2
    angles = [frame * 10000 ** (-i / half) for i in range(half)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles], dtype=torch.float64)


def naive_block(w: dict, at: str, stream: list, places: list) -> list:
    heads, dim = VIT.heads, VIT.qkv // VIT.heads
    q, k, v = [], [], []
    for vector, (_, y, x) in zip(stream, places, strict=True):
        mixed = w[at + "wqkv.weight"] @ naive_norm(vector, w[at + "norm0.weight"], 1.1920929e-07)
        for n, part in enumerate((q, k, v)):
            own = [mixed[n * VIT.qkv + h * dim : n * VIT.qkv + (h + 1) * dim] for h in range(heads)]
            part.append([naive_rotate(u, x, y) for u in own] if n < 2 else own)
    after = []
    for i, vector in enumerate(stream):
        read = []
        for h in range(heads):
            scores = [math.exp((q[i][h] @ k[j][h]).item() / math.sqrt(dim)) for j in range(len(stream))]
            read.append(sum(s / sum(scores) * v[j][h] for j, s in enumerate(scores)))
        vector = vector + w[at + "wo.weight"] @ torch.cat(read)
        u = w[at + "mlp.fc0.weight"] @ naive_norm(vector, w[at + "norm1.weight"], 1.1920929e-07)
        u = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
        after.append(vector + w[at + "mlp.fc1.weight"] @ u)
    return after


def naive_rotate(u: torch.Tensor, x: int, y: int) -> torch.Tensor:
    """Pairs of neighbouring channels as complex numbers: even pairs turn with x, odd pairs with y."""
    dim, turned = len(u), []
    for i in range(dim // 4):
        f = 10000 ** (-4 * i / dim)
        for pair, angle in ((2 * i, x * f), (2 * i + 1, y * f)):
            z = complex(u[2 * pair], u[2 * pair + 1]) * complex(math.cos(angle), math.sin(angle))
            turned += [z.real, z.imag]
    return torch.tensor(turned, dtype=torch.float64)


def naive_norm(v: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
    return v / math.sqrt(sum(x * x for x in v.tolist()) / len(v) + eps) * gain


def naive_project(w: dict, row: torch.Tensor) -> torch.Tensor:
    u = w["proj.0.weight"] @ row
    u = torch.tensor([0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in u.tolist()], dtype=torch.float64)
    return naive_norm(w["proj.2.weight"] @ u, w["post_norm.weight"], 1e-5)


GRIDS = [
    [(1, 2, 2)],
    [(1, 6, 6)],  # the table as it is
    [(1, 4, 2)],
    [(1, 8, 10)],
    [(1, 2, 12)],
    [(2, 4, 6)],
    [(3, 2, 4)],
    [(4, 6, 2)],
    [(1, 4, 4), (2, 2, 6), (1, 8, 2)],
]


@pytest.mark.parametrize("grids", GRIDS, ids=str)
def test_tower_and_projector_equal_the_loops(weights, grids):
    images = images_of(*grids)
    expected = naive(weights, images)
    scale = expected.abs().max()
    assert (ours(weights, images, torch.float64) - expected).abs().max() <= 1e-9 * scale
    assert (ours(weights, images, torch.float32) - expected).abs().max() <= 2e-6 * scale


def test_items_do_not_mix(weights):
    first, second = images_of((1, 4, 4), seed=1), images_of((2, 2, 6), seed=2)
    both = Images(torch.cat([first.patches, second.patches]), first.grids + second.grids)
    apart = torch.cat([ours(weights, x, torch.float64) for x in (first, second)])
    torch.testing.assert_close(ours(weights, both, torch.float64), apart, rtol=0, atol=1e-12)


def test_a_large_image_gives_the_same_without_its_pattern(weights, monkeypatch):
    images = images_of((1, 6, 8))
    full = ours(weights, images, torch.float64)
    monkeypatch.setattr("k3scope.model.vision.vision_block.PATTERN_PATCHES", 47)
    torch.testing.assert_close(ours(weights, images, torch.float64), full, rtol=0, atol=1e-12)
    assert PATTERN_PATCHES >= 1024


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near(weights, dtype):
    images = images_of((1, 4, 6))
    result = ours(weights, images, dtype)
    assert result.dtype == dtype
    expected = ours(weights, images, torch.float64)
    assert (result.double() - expected).abs().max() < 0.1 * expected.abs().max()


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ((5, 2, 2), "5 frames; the tower takes 1 to 4"),
        ((1, 3, 2), "multiples of 2"),
        ((1, 0, 2), "multiples of 2"),
        ((1, 514, 2), "at most 512 per side"),
    ],
)
def test_a_grid_the_tower_is_not_made_for_is_refused(grid, sentence):
    with pytest.raises(ValueError, match=sentence):
        VisionTower(VIT)(Images(torch.zeros(math.prod(grid), 3, 14, 14), (grid,)))


def test_patches_that_do_not_fill_the_grids_are_refused():
    with pytest.raises(ValueError, match="7 patches for grids of 8"):
        VisionTower(VIT)(Images(torch.zeros(7, 3, 14, 14), ((1, 2, 4),)))


def test_a_placeholder_grows_into_the_rows_of_its_image():
    ids = torch.tensor([[1, 9, 2, 9, 3]])
    grown, real = expand(ids, [2, 3], placeholder=9, pad=0)
    assert grown.tolist() == [[1, 9, 9, 2, 9, 9, 9, 3]]
    assert real is None


def test_shorter_rows_are_padded_on_the_left():
    ids = torch.tensor([[9, 1], [9, 2], [3, 4]])
    grown, real = expand(ids, [1, 3], placeholder=9, pad=0, real=torch.tensor([[1, 1], [1, 1], [0, 1]]))
    assert grown.tolist() == [[0, 0, 9, 1], [9, 9, 9, 2], [0, 0, 3, 4]]
    assert real.tolist() == [[False, False, True, True], [True] * 4, [False, False, False, True]]


@pytest.mark.parametrize("counts", [[], [2], [2, 2, 2]])
def test_placeholders_and_images_must_be_as_many(counts):
    with pytest.raises(ValueError, match=f"2 image placeholders for {len(counts)} images"):
        expand(torch.tensor([[9, 1, 9]]), counts, placeholder=9, pad=0)


def test_rows_stand_at_the_placeholders_in_reading_order():
    rows = torch.arange(12.0).view(2, 3, 2)
    ids = torch.tensor([[1, 9, 9], [9, 2, 3]])
    out = Splice(9)(rows, ids, -torch.arange(1.0, 7.0).view(3, 2))
    assert out.tolist() == [[[0, 1], [-1, -2], [-3, -4]], [[-5, -6], [8, 9], [10, 11]]]
    assert Splice(9)(rows, ids, None) is rows

from dataclasses import replace

import pytest
import torch

from k3scope.diagrams.spec import block_spec
from k3scope.model import trace
from k3scope.model.hooks import record, watch
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.vision.tower import Images

CLIP = (2, 6, 4)  # frames, height and width in patches


@pytest.fixture(scope="session")
def blocks():
    return block_spec.blocks()


@pytest.fixture(scope="session")
def clip():
    """Makes a clip for a model, on its device, and tells its sizes in formulas."""

    def make(live: KimiK3, seed: int = 2) -> Images:
        device = next(live.parameters()).device
        vit, count = live.config.vision, CLIP[0] * CLIP[1] * CLIP[2]
        patches = torch.rand(count, 3, vit.patch, vit.patch, generator=torch.Generator().manual_seed(seed))
        return Images((patches * 2 - 1).to(device), (CLIP,))

    make.sizes = {"N": 48, "M": 6}
    return make


def seen(live: KimiK3, images: Images) -> dict:
    """Values of every point of the vision half."""
    with record() as values, torch.no_grad():
        watch(live).mm_projector(live.vision_tower(images))
    return values


@pytest.fixture(scope="session")
def tiny_trace(tiny, clip):
    """Real numbers of every point on the small model: a batch of 2 texts, and a clip."""
    ids = torch.randint(0, 256, (2, 11), generator=torch.Generator().manual_seed(5))
    text = trace(tiny, ids)
    return replace(text, values=text.values | seen(tiny, clip(tiny)))


@pytest.fixture(scope="session")
def full_trace(full, clip):
    """Shapes of every point on the released model, without numbers."""
    with record() as values:
        watch(full)(torch.zeros(1, 17, dtype=torch.long, device="meta"))
    return values | seen(full, clip(full))

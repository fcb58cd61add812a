import pytest
import torch

from diagrams import spec
from model import trace

IDS = {"tiny": 11, "full": 17}


@pytest.fixture(scope="session")
def blocks():
    return spec.blocks()


@pytest.fixture(scope="session")
def tiny_trace(tiny):
    """Real numbers of every point on the small model, batch 2."""
    ids = torch.randint(0, 256, (2, 11), generator=torch.Generator().manual_seed(5))
    return trace(tiny, ids)


@pytest.fixture(scope="session")
def full_trace(full):
    """Shapes of every point on the released model, without numbers."""
    from model.tracing import record, watch

    with record() as values:
        watch(full)(torch.zeros(1, 17, dtype=torch.long, device="meta"))
    return values

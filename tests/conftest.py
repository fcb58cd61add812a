"""Models that many tests share; built once."""

from pathlib import Path

import pytest
import torch

from k3scope.model import load, meta

DATA = Path(__file__).parent / "data"
torch.set_num_threads(1)  # small matrices: a second thread only waits for the first


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA


@pytest.fixture(scope="session")
def tiny():
    """The small model with seeded random weights."""
    return load("k3-random")


@pytest.fixture(scope="session")
def full():
    """The released model on the meta device."""
    return meta("kimi-k3")

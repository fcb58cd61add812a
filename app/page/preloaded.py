"""What the processes of the pool load before they are forked: the code of their tasks.

Nothing here may start a thread: a process that is forked from one with threads may hang.
"""

import gc

import torch

from k3scope.app import models
from k3scope.app.lab import picture_file  # noqa: F401
from k3scope.app.page.sheets import comparison  # noqa: F401
from k3scope.app.runs import reading, uploads  # noqa: F401
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.scene.graph import scene
from k3scope.model.checkpoint.model_registry import register
from k3scope.model.presets import DRAWN

torch.set_num_threads(1)
gc.freeze()  # a collection in a process would write to what all share


def warm() -> None:
    """Build the models that are drawn, so that the first comparison and the first file need not wait."""
    for name in DRAWN:
        Facts.of(name).block("kimi_k3")
        scene(name)


def register_models(paths: dict[str, str]) -> None:
    """Give this process the models that the server was started with, by name."""
    for name, path in paths.items():
        register(name, path)
    models.why_not_runnable.cache_clear()

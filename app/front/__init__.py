"""Kimi K3 as it is: `load` a model, `trace` a pass, draw a `diagram`. Importing this loads no torch."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what the table below says, for editors and type checkers
    from k3scope.diagrams.scene.diagram_file import diagram
    from k3scope.model.checkpoint.checkpoint import open_checkpoint
    from k3scope.model.checkpoint.save import save_pretrained
    from k3scope.model.config import Config
    from k3scope.model.interventions.edits import edits
    from k3scope.model.interventions.intervention import Intervention
    from k3scope.model.loading import config_of, load, meta, tokenizer
    from k3scope.model.runs.generate import generate
    from k3scope.model.runs.lab import lab
    from k3scope.model.runs.run import trace

__version__ = "0.2.0"

_HOMES = {
    "Config": "model.config",
    "Intervention": "model.interventions.intervention",
    "config_of": "model.loading",
    "diagram": "diagrams.scene.diagram_file",
    "edits": "model.interventions.edits",
    "generate": "model.runs.generate",
    "lab": "model.runs.lab",
    "load": "model.loading",
    "meta": "model.loading",
    "open_checkpoint": "model.checkpoint.checkpoint",
    "save_pretrained": "model.checkpoint.save",
    "tokenizer": "model.loading",
    "trace": "model.runs.run",
}
__all__ = [
    "Config",
    "Intervention",
    "__version__",
    "config_of",
    "diagram",
    "edits",
    "generate",
    "lab",
    "load",
    "meta",
    "open_checkpoint",
    "save_pretrained",
    "tokenizer",
    "trace",
]


def __getattr__(name: str):
    """On first use only: `import k3scope` takes no longer than reading this file."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

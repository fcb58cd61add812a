"""Kimi K3 as it is: `load` a model, `trace` a pass, draw a `diagram`. Importing this loads no torch."""

from importlib import import_module

__version__ = "0.2.0"

_HOMES = {
    "Intervention": "model.interventions.intervention",
    "diagram": "diagrams.scene.diagram_file",
    "edits": "model.interventions.edits",
    "lab": "model.runs.lab",
    "load": "model.loading",
    "meta": "model.loading",
    "open_checkpoint": "model.checkpoint.checkpoint",
    "tokenizer": "model.loading",
    "trace": "model.runs.run",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str):
    """On first use only: `import k3scope` takes no longer than reading this file."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])

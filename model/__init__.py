"""Kimi K3 in plain PyTorch: load a model, run it, look inside."""

from importlib import import_module

_HOMES = {
    "Checkpoint": "checkpoint.checkpoint",
    "Config": "config",
    "KimiK3": "kimi_k3",
    "Run": "runs.run",
    "Trace": "tracing",
    "config_of": "loading",
    "load": "loading",
    "meta": "loading",
    "open_checkpoint": "checkpoint.checkpoint",
    "save_pretrained": "checkpoint.save",
    "trace": "runs.run",
}
__all__ = list(_HOMES)


def __getattr__(name: str):
    """On first use only: the names of models and their sizes are had without loading torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value

"""What this machine and this installation have: versions, device, compiler, kernels, tokenizers, models."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from k3scope.app import models
from k3scope.diagrams.spec.format_numbers import size
from k3scope.model import config_of
from k3scope.model.checkpoint.model_registry import REGISTERED, folder_of
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.files.checkpoint_folder import SINGLE
from k3scope.model.kernels import dispatch, native
from k3scope.model.presets import TRAINED

PACKAGES = ("k3scope", "torch", "panel", "bokeh", "triton")


def report() -> dict[str, dict]:
    """Group -> name -> value; every value is looked up now."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "machine": {
            "device": _device(),
            "cores": os.cpu_count() or 1,
            "threads": torch.get_num_threads(),
            "compiler": native.compiler() or f"none ({', '.join(native.COMPILERS)})",
        },
        "kernels": {title: _kernel(name) for name, title in dispatch.OPERATORS.items()},
        "models": {name: _model(name) for name in models.drawn()},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _device() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})"


def _kernel(operator: str) -> str:
    """The path float32 inputs take, and why it is not the compiled one on a CPU."""
    path = dispatch.TITLES[dispatch.expected(operator)]
    trouble = native.trouble(operator)
    if path == "torch" and trouble:
        return f"{path}: {trouble.strip().splitlines()[-1]}"
    override = dispatch.override()
    return f"{path} (K3SCOPE_KERNELS={override})" if override else path


def _model(name: str) -> dict[str, str]:
    """What is at hand of a model; the path where its owner keeps it is left out."""
    config, why = config_of(name), models.why_not_runnable(name)
    return {
        "layers": f"{config.layers} layers",
        "runs": f"does not run: {why}" if why else "runs here",
        "weights": _weights(name),
        "tokenizer": f"tokenizer: {_tokenizer(name, config.vocab)}",
    }


def _weights(name: str) -> str:
    if name in TRAINED:
        return f"trained checkpoint, {size((folder_of(name) / SINGLE).stat().st_size)}"
    if name in REGISTERED:
        return "a folder named at the start"
    return "no weights" if models.why_not_runnable(name) else "seeded random weights"


def _tokenizer(name: str, vocab: int) -> str:
    try:
        tokenizer = tokenizer_of(name, vocab)
    except ValueError:
        return "none"
    return f"{type(tokenizer).__name__}, {tokenizer.vocab:,} ids"

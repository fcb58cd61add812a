"""Show what k3scope finds on this machine: versions, device, compiler, kernels, tokenizer, models."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from model import config_of
from model.kernels import dispatch, native
from model.presets import META_ONLY, PRESETS
from model.tokenizers import tokenizer_of

PACKAGES = ("torch", "panel", "bokeh", "triton")


def arguments(parser) -> None:
    parser.add_argument("--format", choices=["table", "json"], default="table")


def run(options) -> None:
    found = report()
    if options.format == "json":
        print(json.dumps(found, indent=1))
        return
    for title, entries in found.items():
        print(title)
        for name, value in entries.items():
            print(f"  {name:<18} {value}")


def report() -> dict[str, dict[str, str | int]]:
    """Group -> name -> what was found; every value is looked up now."""
    return {
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "machine": {
            "device": _device(),
            "cores": os.cpu_count() or 1,
            "threads": torch.get_num_threads(),
            "compiler": native.compiler() or f"none ({', '.join(native.COMPILERS)})",
        },
        "kernels": {title: _kernel(name) for name, title in dispatch.OPERATORS.items()},
        "models": {name: _model(name) for name in PRESETS},
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
    asked = dispatch.override()
    return f"{path} (K3SCOPE_KERNELS={asked})" if asked else path


def _model(name: str) -> str:
    config = config_of(name)
    try:
        tokenizer = type(tokenizer_of(name, config.vocab)).__name__
    except ValueError as error:
        tokenizer = f"none ({error})"
    runs = "shapes and counts only" if name in META_ONLY else "runs here"
    return f"{config.layers} layers, {runs}, tokenizer: {tokenizer}"

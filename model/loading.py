"""Load a model by its name, a config.json, a checkpoint folder or its headers."""

from pathlib import Path

import torch

from k3scope.model.checkpoint.checkpoint import open_checkpoint
from k3scope.model.checkpoint.headers_model import config_at
from k3scope.model.checkpoint.model_registry import REGISTERED, folder_of
from k3scope.model.checkpoint.tensor_layout import cast
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.config import Config
from k3scope.model.init import build, random_model
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.presets import META_ONLY, PRESETS, TRAINED, preset
from k3scope.model.tokenizers.tokenizer import Tokenizer


def config_of(name: str) -> Config:
    """Config of a model's name, a config.json, a checkpoint folder, or a file of headers."""
    if name in REGISTERED:
        return REGISTERED[name].config
    is_name = name in PRESETS or name in TRAINED or not Path(name).exists()
    return preset(name) if is_name else config_at(name)


def meta(name: str) -> KimiK3:
    """The module tree of a model on the meta device: every shape, no numbers."""
    return build(config_of(name))


def tokenizer(name: str) -> Tokenizer:
    """The tokenizer that belongs to a model of that name. ValueError when it has none."""
    return tokenizer_of(name, config_of(name).vocab)


def load(name: str, dtype: torch.dtype | None = None, device: str = "cpu") -> KimiK3:
    """A model that runs: the trained one, a preset with seeded random weights, or a checkpoint folder.

    ValueError gives the reason when it cannot be loaded.
    """
    if name in META_ONLY:
        raise ValueError(f"{name} has no weights here: only its shapes and counts are at hand")
    if name in TRAINED:
        dtype = dtype or torch.float32
    elif name in PRESETS or not folder_of(name).exists():
        model = random_model(preset(name)).to(device)
        return model if dtype is None else cast(model, model.config, dtype)
    return open_checkpoint(folder_of(name)).load(dtype, device)

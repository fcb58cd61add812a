"""Registered models: a checkpoint folder, its headers or a config.json becomes a model by name."""

import re
from dataclasses import dataclass
from pathlib import Path

from k3scope.model.checkpoint.headers_model import HeadersModel, config_at, headers_model
from k3scope.model.config import Config
from k3scope.model.presets import PRESETS, TRAINED

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


@dataclass(frozen=True)
class RegisteredModel:
    """A name and what it stands for."""

    name: str
    path: Path
    config: Config


REGISTERED: dict[str, RegisteredModel] = {}  # filled when the program starts; later only read


def register(name: str, path: str | Path) -> RegisteredModel:
    """Give a folder, its headers or a config.json a name. ValueError when name or path will not do."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for a model: expected up to 40 letters, digits and . _ -")
    if name in PRESETS or name in TRAINED:
        raise ValueError(f"{name!r} is a model that comes with the program; choose another name")
    if name in REGISTERED:
        raise ValueError(f"{name!r} is named twice; the first is {REGISTERED[name].path}")
    path = Path(path).expanduser()
    if not path.exists():
        raise ValueError(
            f"{path}: no such file or folder; expected a checkpoint folder, its headers or a config.json"
        )
    path = path.resolve()
    REGISTERED[name] = RegisteredModel(name, path, config_at(path))
    return REGISTERED[name]


def folder_of(source: str | Path) -> Path:
    """Where a model's files are: those of a name, else the path itself."""
    if model := REGISTERED.get(str(source)):
        return model.path
    return Path(TRAINED.get(str(source), source))


def headers_of(name: str) -> HeadersModel | None:
    """What the file of headers says that a model is read from; None for a model of another kind."""
    return None if name in PRESETS or name in TRAINED else headers_model(folder_of(name))

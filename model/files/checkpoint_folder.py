"""The files of a checkpoint folder: which tensor is where, and what is not there."""

import json
from functools import cached_property
from pathlib import Path

from torch import Tensor

from k3scope.model.files.safetensors_shard import Shard, TensorHeader

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


class Folder:
    """safetensors files with or without an index. ValueError when they contradict each other."""

    def __init__(self, path: Path):
        self.path = path
        self._opened: dict[str, Shard] = {}
        self.where = _index(path / INDEX) if (path / INDEX).exists() else self._listed()  # tensor -> file
        files = set(self.where.values())
        self.absent = sorted(file for file in files if not (path / file).exists())
        self.files = sorted(files - set(self.absent))

    @staticmethod
    def has_weights(path: Path) -> bool:
        return (path / INDEX).exists() or (path / SINGLE).exists() or bool(_shards(path))

    def shard(self, file: str) -> Shard:
        if file not in self._opened:
            self._opened[file] = Shard(self.path / file)
        return self._opened[file]

    @cached_property
    def here(self) -> frozenset[str]:
        """The files that are there, after comparing their names with those of the index."""
        for file in self.files:
            slots = self.shard(file).slots
            for name in slots:
                if (named := self.where.get(name, "no file")) != file:
                    raise ValueError(f"{self.path}: {file} holds {name}, which {INDEX} places in {named}")
        for name, file in self.where.items():
            if file in self._opened and name not in self._opened[file].slots:
                raise ValueError(f"{self.path}: {INDEX} places {name} in {file}, which does not hold it")
        return frozenset(self.files)

    def slot(self, name: str) -> TensorHeader | None:
        """What the file says of a tensor; None when the file or the name is missing."""
        file = self.where.get(name)
        return self.shard(file).slots[name] if file in self.here else None

    def view(self, name: str) -> Tensor:
        """The numbers of a tensor, still in the file."""
        return self.shard(self.where[name]).tensor(name)

    def let_go(self, name: str) -> None:
        self.shard(self.where[name]).let_go(name)

    def close(self) -> None:
        """Unmap every file that no tensor views."""
        for shard in self._opened.values():
            shard.close()

    def _listed(self) -> dict[str, str]:
        where: dict[str, str] = {}
        for file in [SINGLE] if (self.path / SINGLE).exists() else _parts(self.path):
            for name in self.shard(file).slots:
                if where.setdefault(name, file) != file:
                    raise ValueError(f"{self.path}: {name} is in both {where[name]} and {file}")
        return where


def _index(path: Path) -> dict[str, str]:
    try:
        where = json.loads(path.read_text())["weight_map"]
        files = set(where.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: not an index of safetensors files (no weight_map)") from None
    for file in sorted(map(str, files)):
        if Path(file).name != file:
            raise ValueError(f"{path}: {file!r} is no file name in this folder")
        if not file.endswith(".safetensors"):
            raise ValueError(f"{path}: {_refused(file)}")
    return where


def _shards(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("model-*-of-*.safetensors"))


def _parts(folder: Path) -> list[str]:
    """Shards without their index: what a part of a download looks like."""
    if files := _shards(folder):
        return files
    pickles = sorted(p.name for suffix in ("bin", "pt", "pth", "ckpt") for p in folder.glob(f"*.{suffix}"))
    hint = f"; {_refused(pickles[0])}" if pickles else ""
    raise ValueError(f"{folder}: expected {SINGLE} or {INDEX}{hint}")


def _refused(file: str) -> str:
    return f"{file} is no safetensors file: a pickle, which can run code when opened, is refused"

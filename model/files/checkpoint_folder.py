"""The files of a checkpoint folder: which tensor is where, and what is not there."""

import os
from functools import cached_property
from pathlib import Path

from torch import Tensor

from k3scope.model.files.safetensors_header import TensorHeader, shown
from k3scope.model.files.safetensors_shard import Shard
from k3scope.model.files.weight_index import WeightMap, no_safetensors, read_index

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


class Folder:
    """safetensors files with or without an index. ValueError when they contradict each other."""

    def __init__(self, path: Path):
        self.path = path
        self._opened: dict[str, Shard] = {}
        # tensor -> file
        self.weight_map = read_index(path / INDEX) if (path / INDEX).exists() else self._listed()
        files = set(self.weight_map.values())
        self.absent = sorted(file for file in files if not os.path.exists(path / file))
        self.files = sorted(files - set(self.absent))

    @staticmethod
    def has_weights(path: Path) -> bool:
        return (path / INDEX).exists() or (path / SINGLE).exists() or bool(_shards(path))

    def shard(self, file: str) -> Shard:
        if file not in self._opened:
            self._opened[file] = Shard(self.path / file)
        return self._opened[file]

    @cached_property
    def present(self) -> frozenset[str]:
        """The files that are there, after comparing their names with those of the index."""
        placed: dict[str, list[str]] = {file: [] for file in self.files}
        for name, file in self.weight_map.items():
            placed.get(file, []).append(name)
        for file, names in placed.items():
            self.check(file, self.shard(file).headers, names)
        return frozenset(self.files)

    def check(self, file: str, headers: dict[str, TensorHeader], names: list[str]) -> None:
        """ValueError when a file holds others than the `names` that the index places in it."""
        for name in headers:
            if (indexed := self.weight_map.get(name, "no file")) != file:
                raise ValueError(
                    f"{self.path}: {file} holds {shown(name)}, which {INDEX} places in {indexed}"
                )
        if (absent := next((name for name in names if name not in headers), None)) is not None:
            raise ValueError(f"{self.path}: {INDEX} places {shown(absent)} in {file}, which does not hold it")

    def header(self, name: str) -> TensorHeader | None:
        """The header entry of a tensor; None when the file or the name is missing."""
        file = self.weight_map.get(name)
        return self.shard(file).headers[name] if file in self.present else None

    def view(self, name: str) -> Tensor:
        """The numbers of a tensor, still in the file."""
        return self.shard(self.weight_map[name]).tensor(name)

    def release(self, name: str) -> None:
        self.shard(self.weight_map[name]).release(name)

    def close(self) -> None:
        """Unmap every file that no tensor views."""
        for shard in self._opened.values():
            shard.close()

    def _listed(self) -> dict[str, str]:
        weight_map = WeightMap()
        for file in [SINGLE] if (self.path / SINGLE).exists() else _parts(self.path):
            for name in self.shard(file).headers:
                try:
                    weight_map.add(name, file)
                except ValueError as error:
                    raise ValueError(f"{self.path}: {error}") from None
        return weight_map


def _shards(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("model-*-of-*.safetensors"))


def _parts(folder: Path) -> list[str]:
    """Shards without their index: what a part of a download looks like."""
    if files := _shards(folder):
        return files
    pickles = sorted(p.name for suffix in ("bin", "pt", "pth", "ckpt") for p in folder.glob(f"*.{suffix}"))
    hint = f"; {no_safetensors(pickles[0])}" if pickles else ""
    raise ValueError(f"{folder}: expected {SINGLE} or {INDEX}{hint}")

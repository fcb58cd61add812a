"""The files of a checkpoint folder: which tensor is where, and what is not there."""

from functools import cached_property
from pathlib import Path
from reprlib import repr as short

from torch import Tensor

from k3scope.model.files.json_file import parse_json, read_bytes
from k3scope.model.files.safetensors_header import LONGEST_NAME, TensorHeader, check_marks
from k3scope.model.files.safetensors_shard import Shard

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
LARGEST_INDEX = 96 * 2**20  # bytes; that of half a million tensors has 60 MB
MOST_NAMES, MOST_FILES = 2**20, 10_000


class Folder:
    """safetensors files with or without an index. ValueError when they contradict each other."""

    def __init__(self, path: Path):
        self.path = path
        self._opened: dict[str, Shard] = {}
        # tensor -> file
        self.weight_map = _index(path / INDEX) if (path / INDEX).exists() else self._listed()
        files = set(self.weight_map.values())
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
    def present(self) -> frozenset[str]:
        """The files that are there, after comparing their names with those of the index."""
        for file in self.files:
            headers = self.shard(file).headers
            for name in headers:
                if (indexed := self.weight_map.get(name, "no file")) != file:
                    raise ValueError(f"{self.path}: {file} holds {name}, which {INDEX} places in {indexed}")
        for name, file in self.weight_map.items():
            if file in self._opened and name not in self._opened[file].headers:
                raise ValueError(f"{self.path}: {INDEX} places {name} in {file}, which does not hold it")
        return frozenset(self.files)

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
        weight_map: dict[str, str] = {}
        for file in [SINGLE] if (self.path / SINGLE).exists() else _parts(self.path):
            for name in self.shard(file).headers:
                if weight_map.setdefault(name, file) != file:
                    raise ValueError(f"{self.path}: {name} is in both {weight_map[name]} and {file}")
            if len(weight_map) > MOST_NAMES:
                raise ValueError(f"{self.path}: more than {MOST_NAMES:,} tensors")
        return weight_map


def _index(path: Path) -> dict[str, str]:
    try:
        text = read_bytes(path, LARGEST_INDEX)
        check_marks(text, {b"{": 1000, b"[": 1000, b":": MOST_NAMES})
        weight_map = parse_json(text)["weight_map"]
        files = set(weight_map.values())
        longest = max(map(len, weight_map), default=0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = str(error).removeprefix(f"{path}: ") if isinstance(error, ValueError) else "no weight_map"
        raise ValueError(f"{path}: not an index of safetensors files ({why})") from None
    if len(files) > MOST_FILES or longest > LONGEST_NAME:
        raise ValueError(
            f"{path}: more than {MOST_FILES:,} files, or a name of over {LONGEST_NAME:,} letters"
        )
    for file in sorted(map(str, files)):
        if Path(file).name != file or len(file.encode(errors="replace")) > 255 or not file.isprintable():
            raise ValueError(f"{path}: {short(file)} is no file name in this folder")
        if not file.endswith(".safetensors"):
            raise ValueError(f"{path}: {_refusal(file)}")
    return weight_map


def _shards(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("model-*-of-*.safetensors"))


def _parts(folder: Path) -> list[str]:
    """Shards without their index: what a part of a download looks like."""
    if files := _shards(folder):
        return files
    pickles = sorted(p.name for suffix in ("bin", "pt", "pth", "ckpt") for p in folder.glob(f"*.{suffix}"))
    hint = f"; {_refusal(pickles[0])}" if pickles else ""
    raise ValueError(f"{folder}: expected {SINGLE} or {INDEX}{hint}")


def _refusal(file: str) -> str:
    return f"{file} is no safetensors file: a pickle, which can run code when opened, is refused"

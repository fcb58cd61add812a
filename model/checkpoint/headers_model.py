"""A model of which only the headers are here: its sizes, what is missing, and what its files take."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from k3scope.model.checkpoint.checkpoint import open_checkpoint, read_config
from k3scope.model.checkpoint.official_names import OfficialNames
from k3scope.model.checkpoint.tensor_layout import Storage
from k3scope.model.config import Config
from k3scope.model.files.headers_file import HeadersFile


@dataclass(frozen=True)
class HeadersModel:
    """What a file of headers says of a model."""

    config: Config
    storage: Storage
    problem: str  # what is missing; "" for nothing


def config_at(path: str | Path) -> Config:
    """Config of a config.json, a checkpoint folder, or a file of headers that fit it."""
    model = headers_model(path)
    return model.config if model else read_config(path)


def headers_model(path: str | Path) -> HeadersModel | None:
    """What a file of headers says; None for anything else. ValueError when it contradicts its config."""
    path = Path(path)
    if not HeadersFile.is_one(path):
        return None
    status = path.stat()
    return _read(path.resolve(), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, _changed: int, _size: int) -> HeadersModel:
    """Kept, for half a million names take seconds; as long as the file is the same."""
    checkpoint = open_checkpoint(path)
    named = checkpoint.folder
    headers: HeadersFile = named.folder if isinstance(named, OfficialNames) else named
    by_dtype: Counter[str] = Counter()
    elements = stored = scales = 0
    for file in headers.files:
        for header in headers.shard(file).headers.values():
            by_dtype[header.dtype] += 1
            stored += header.stop - header.start
    for tensor in checkpoint.layout:
        if tensor.name in named.weight_map and named.header(tensor.name):
            elements += tensor.parameters
            scales += tensor.bytes if tensor.role == "scale" else 0
    labels = checkpoint.layout.storage().labels
    storage = Storage(by_dtype.total(), dict(by_dtype), elements, stored, scales, labels)
    return HeadersModel(checkpoint.config, storage, checkpoint.problem())

"""Write a model as a checkpoint folder in the official layout."""

import json
import struct
from collections.abc import Iterable
from pathlib import Path

import torch

from k3scope.model.checkpoint.official_tensors import Export
from k3scope.model.checkpoint.tensor_layout import SIZE, Stored
from k3scope.model.files.checkpoint_folder import INDEX, SINGLE, Folder
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.official_config_write import document

SHARD_BYTES = 5 * 2**30


def save_pretrained(
    model: KimiK3,
    folder: str | Path,
    dtype: torch.dtype | None = None,
    packed: bool | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Write config.json and safetensors, in one file or in shards of at most `shard_bytes` each.

    `dtype` None keeps what the model has; tensors that the release has in F32 stay so in a narrower one.
    `packed` True rounds experts to MXFP4; None follows the config, without rounding.
    ValueError when that cannot be, or when the folder has a checkpoint already; then nothing is written.
    """
    folder = Path(folder)
    if Folder.has_weights(folder):
        raise ValueError(f"{folder} holds a checkpoint already; expected a new folder")
    export = Export(model, dtype, packed)
    shards = _shards(export, shard_bytes)
    names = [f"model-{i:05}-of-{len(shards):05}.safetensors" for i in range(1, len(shards) + 1)]
    files = dict(zip(names if len(shards) > 1 else [SINGLE], shards, strict=True))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for file, tensors in files.items():
            _write(folder / file, tensors, export)
    except BaseException:
        for file in files:
            (folder / file).unlink(missing_ok=True)
        raise
    if len(files) > 1:
        _json(folder / INDEX, _index(files))
    _json(folder / "config.json", document(export.config))


def _shards(tensors: Iterable[Stored], limit: int) -> list[list[Stored]]:
    """Tensors in order, cut so that no shard exceeds the limit unless one tensor alone does."""
    shards, filled = [[]], 0
    for tensor in tensors:
        if shards[-1] and filled + tensor.bytes > limit:
            shards.append([])
            filled = 0
        shards[-1].append(tensor)
        filled += tensor.bytes
    return shards


def _index(files: dict[str, list[Stored]]) -> dict:
    total = sum(t.bytes for tensors in files.values() for t in tensors)
    where = {t.name: file for file, tensors in files.items() for t in tensors}
    return {"metadata": {"total_size": total}, "weight_map": where}


def _write(path: Path, tensors: list[Stored], export: Export) -> None:
    """One safetensors file; a tensor is in memory only while it is written."""
    tensors = sorted(tensors, key=lambda t: -SIZE[t.dtype])  # wide elements first, so that all are aligned
    header, stop = {"__metadata__": {"format": "pt"}}, 0
    for t in tensors:
        start, stop = stop, stop + t.bytes
        header[t.name] = {"dtype": t.dtype, "shape": list(t.shape), "data_offsets": [start, stop]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for t in tensors:
            file.write(memoryview(export.value(t).view(-1).view(torch.uint8).numpy()))


def _json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")

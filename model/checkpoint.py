"""Read a checkpoint folder in the official layout: config.json and safetensors."""

import json
import re
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.config import Config
from model.init import build
from model.kimi_k3 import KimiK3

_EXPERT = re.compile(r"(.+\.experts)\.(\d+)\.(w[123])\.weight$")
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


def load_checkpoint(folder: str | Path, dtype: torch.dtype | None = None, device: str = "cpu") -> KimiK3:
    """The model in `folder`, on `device`; `dtype` None keeps what is stored.

    ValueError says what is missing, unknown, of the wrong shape or unreadable; nothing is half-loaded.
    """
    folder = Path(folder)
    files = _files(folder)
    with ExitStack() as stack:
        source = {}
        for name, path in files.items():
            source[name] = stack.enter_context(_open(path))
        where = {tensor: handle for handle in source.values() for tensor in handle.keys()}  # noqa: SIM118
        config = _config(folder, where)
        model = build(config)
        _fill(model, where, dtype, device)
    return model.eval().requires_grad_(False)


def official_names(model: KimiK3) -> dict[str, str]:
    """Official tensor name -> our parameter name, with stacked experts spread out."""
    names = {}
    for ours, parameter in model.named_parameters():
        base, _, last = ours.rpartition(".")
        if base.endswith(".experts"):
            names |= {f"{base}.{e}.{last}.weight": ours for e in range(parameter.shape[0])}
        else:
            names[ours] = ours
    return names


def read_config(path: str | Path) -> Config:
    """Config of a config.json file or of the folder that holds one."""
    path = Path(path)
    path = path / "config.json" if path.is_dir() else path
    try:
        return Config.from_official(json.loads(path.read_text()))
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; expected an official config.json") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from None


def _files(folder: Path) -> dict[str, Path]:
    if (folder / INDEX).exists():
        shards = set(json.loads((folder / INDEX).read_text())["weight_map"].values())
    elif (folder / SINGLE).exists():
        shards = {SINGLE}
    else:
        other = sorted(p.name for p in folder.glob("*.bin")) if folder.is_dir() else []
        hint = f"; {other[0]} is a pickle, which can run code when opened, and is refused" if other else ""
        raise ValueError(f"{folder}: expected {SINGLE} or {INDEX}{hint}")
    if missing := sorted(s for s in shards if not (folder / s).exists()):
        raise ValueError(f"{folder}: {INDEX} names {len(missing)} files that are not there: {missing[:3]}")
    return {shard: folder / shard for shard in sorted(shards)}


def _open(path: Path):
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise ValueError(f"{path}: not a whole safetensors file ({error})") from None


def _config(folder: Path, where: dict) -> Config:
    """config.json does not tell how long A_log is stored: the tensor does."""
    config = read_config(folder)
    for name, handle in where.items():
        if name.endswith(".A_log"):
            return replace(config, a_log_stored=handle.get_slice(name).get_shape()[0])
    return config


def _fill(model: KimiK3, where: dict, dtype: torch.dtype | None, device: str) -> None:
    names = official_names(model)
    _check_names(set(names), set(where))
    parts: dict[str, list[Tensor]] = defaultdict(list)
    for official, ours in names.items():  # experts come in order, so they stack in order
        parts[ours].append(where[official].get_tensor(official))
    for ours, tensors in parts.items():
        value = (
            torch.stack(tensors) if ".experts." in ours and ours[-2:] in ("w1", "w2", "w3") else tensors[0]
        )
        owner, _, leaf = ours.rpartition(".")
        module = model.get_submodule(owner)
        expected = tuple(getattr(module, leaf).shape)
        if tuple(value.shape) != expected:
            raise ValueError(f"{ours}: stored as {tuple(value.shape)}; config.json asks for {expected}")
        value = value.to(device=device, dtype=dtype or value.dtype)
        setattr(module, leaf, torch.nn.Parameter(value, requires_grad=False))


def _check_names(expected: set[str], found: set[str]) -> None:
    if missing := sorted(expected - found):
        raise ValueError(f"checkpoint: {len(missing)} tensors are missing, first {missing[0]}")
    if unknown := sorted(found - expected):
        raise ValueError(f"checkpoint: {len(unknown)} unknown tensors, first {unknown[0]}")

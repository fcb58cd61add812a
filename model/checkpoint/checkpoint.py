"""Open a checkpoint folder in the official layout: what is there, what is missing, and the model in it."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from k3scope.model.checkpoint.mismatch import check, unknown
from k3scope.model.checkpoint.official_names import LAYER, SEEING, OfficialNames
from k3scope.model.checkpoint.quantization_file import with_file_beside
from k3scope.model.checkpoint.tensor_layout import Layout, TensorEntry
from k3scope.model.config import Config
from k3scope.model.config_limits import LARGEST_FILE, MOST_MARKS
from k3scope.model.files.checkpoint_folder import Folder
from k3scope.model.files.headers_file import HeadersFile
from k3scope.model.files.json_file import parse_json, read_bytes
from k3scope.model.files.safetensors_header import check_marks
from k3scope.model.init import build
from k3scope.model.kernels import mxfp4
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.moe_packed import MATRICES, ExpertsOnDemand, PackedExperts
from k3scope.model.presets import KIMI_K3, with_release_padding

LAYERS = "language_model.model.layers."
MOST_TENSORS = 2**22  # of a model that is opened; the release has half a million


def read_config(path: str | Path) -> Config:
    """Config of a config.json, of the folder that holds one and perhaps weights, or of a file of headers."""
    path = Path(path)
    if HeadersFile.is_one(path):
        return open_checkpoint(path).config
    if not path.is_dir():
        return _config_of_file(path)
    config = _config_of_file(path / "config.json")
    return _with_padding(config, Folder(path)) if Folder.has_weights(path) else config


def _config_of_file(file: Path) -> Config:
    return _config(file, read_official(file))


def _config(file: Path, official: Any) -> Config:
    try:
        return checked_config(official)
    except ValueError as error:
        raise ValueError(f"{file}: {str(error).removeprefix('config.json: ')}") from None


def read_official(file: Path) -> Any:
    """What a config.json holds. ValueError when it cannot be read within limits."""
    if not file.exists():
        raise ValueError(f"{file}: no such file; expected an official config.json")
    if file.suffix == ".safetensors":
        raise ValueError(f"{file}: holds weights; name the folder it is in, where config.json is")
    text = read_bytes(file, LARGEST_FILE)
    try:
        check_marks(text, MOST_MARKS)
        return with_file_beside(parse_json(text), file.parent)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def checked_config(official: dict) -> Config:
    """The Config of an official config.json; ValueError too when no size fits its quantised format."""
    config = with_release_padding(Config.from_official(official))
    if config.quantization not in (None, KIMI_K3.quantization):
        Layout(build(config), config)
    return config


def open_checkpoint(folder: str | Path) -> "Checkpoint":
    """Read names, shapes and dtypes, but no numbers. ValueError names what contradicts this checkpoint."""
    return Checkpoint(Path(folder))


class Checkpoint:
    """A folder of safetensors files, complete or in part; or the headers of one, without numbers."""

    def __init__(self, path: Path):
        self.folder: Folder | HeadersFile | OfficialNames
        if HeadersFile.is_one(path):
            self.folder = HeadersFile(path)
            config = _config(path, self.folder.config)
        else:
            config = _config_of_file(path / "config.json")
            self.folder = Folder(path)
        self.config = _with_padding(config, self.folder)
        self.layout = Layout(build(self.config), self.config, lambda: self.folder.weight_map)
        if (count := len(self.layout)) > MOST_TENSORS:
            raise ValueError(
                f"{path}: config.json asks for {count:,} tensors; at most {MOST_TENSORS:,} are opened"
            )
        self.missing = self._missing()

    @cached_property
    def complete_layers(self) -> int:
        """How many leading layers have all of their tensors."""
        whole = self.layers_present
        return next((n for n, layer in enumerate(whole) if n != layer), len(whole))

    @cached_property
    def layers_present(self) -> tuple[int, ...]:
        """The layers that have all of their tensors."""
        broken = {int(match[1]) for name in self.missing if (match := LAYER.search(name))}
        return tuple(n for n in range(self.config.layers) if n not in broken)

    @property
    def has_vision(self) -> bool:
        """Whether the vision tower and the projector have all of their tensors."""
        return self.config.vision is not None and not any(name.startswith(SEEING) for name in self.missing)

    @property
    def has_embedding(self) -> bool:
        return not any(name.endswith("embed_tokens.weight") for name in self.missing)

    def problem(self) -> str:
        """What is missing, in one sentence; "" when nothing is."""
        if not self.missing:
            return ""
        text = f"{self.folder.path}: {len(self.missing):,} tensors are missing, first {self.missing[0]}"
        if absent := self.folder.absent:
            text += f"; {len(absent)} files are not there, first {absent[0]}"
        text += f"; complete: the first {self.complete_layers} of {self.config.layers} layers"
        if further := self.layers_present[self.complete_layers :]:
            text += f", and layers {', '.join(map(str, further[:8]))}" + (
                " and others" if further[8:] else ""
            )
        return text + (", and the vision tower" if self.has_vision else "")

    def load(self, dtype: torch.dtype | None = None, device: str = "cpu", packed: bool = False) -> KimiK3:
        """The full model; `dtype` None keeps what is stored, `packed` keeps MXFP4 experts as they are.

        ValueError names what is missing; nothing is half-loaded.
        """
        if self.missing:
            raise ValueError(self.problem())
        self._check_head()
        model = build(self.config)
        if packed:
            self.replace_experts(model, lambda _path: PackedExperts(self.config), packed=True)
        self.fill(model, "", dtype, device)
        return model.eval().requires_grad_(False)

    def load_layers(self, count: int, dtype: torch.dtype | None = None, device: str = "cpu") -> nn.ModuleList:
        """The first `count` layers by themselves. ValueError when they are not all complete."""
        if not 0 <= count <= self.complete_layers:
            why = self.problem() or f"{self.folder.path} has {self.config.layers}"
            raise ValueError(f"{count} layers are asked for; {why}")
        model = build(self.config)
        for layer in range(count):
            self.fill(model, f"{LAYERS}{layer}.", dtype, device)
        return model.language_model.model.layers[:count].eval().requires_grad_(False)

    def load_layer(self, layer: int, dtype: torch.dtype | None = None, device: str = "cpu") -> nn.Module:
        """One layer by itself, whatever else is there. ValueError when it is not complete."""
        if layer not in self.layers_present:
            why = self.problem() or f"{self.folder.path} has layers 0 to {self.config.layers - 1}"
            raise ValueError(f"layer {layer} is asked for; {why}")
        model = build(self.config)
        self.fill(model, f"{LAYERS}{layer}.", dtype, device)
        return model.language_model.model.layers[layer].eval().requires_grad_(False)

    def load_vision(self, dtype: torch.dtype | None = None, device: str = "cpu") -> nn.Sequential:
        """Tower and projector by themselves: images to rows [M, d]. ValueError when they are not there."""
        if not self.has_vision:
            raise ValueError(f"the vision tower is asked for; {self.problem() or 'the model has none'}")
        model = build(self.config)
        for half in SEEING:
            self.fill(model, half, dtype, device)
        return nn.Sequential(model.vision_tower, model.mm_projector).eval().requires_grad_(False)

    def fill(self, model: KimiK3, prefix: str, dtype: torch.dtype | None = None, device: str = "cpu") -> None:
        """Load the parameters below `prefix`; experts on demand need none.

        ValueError when their numbers are stored in a format that does not run here.
        """
        if reason := self.layout.cannot_run:
            raise ValueError(f"{self.folder.path}: {reason}")
        for path, entry in self.layout.entries.items():
            if path.startswith(prefix):
                self._fill(model, entry, dtype, device)
        self.folder.close()

    def replace_experts(self, model: KimiK3, make: Callable[[str], nn.Module], packed: bool = False) -> None:
        """Put `make(path)` in the place of every bank of experts; `packed`: of those in MXFP4."""
        entries = self.layout.entries
        banks = {path.rpartition(".")[0] for path, entry in entries.items() if entry.experts}
        for path in banks:
            if not packed or all(entries[f"{path}.{matrix}"].packed for matrix in MATRICES):
                model.set_submodule(path, make(path))

    def experts_on_demand(self, path: str) -> ExpertsOnDemand:
        """Experts that stay in their files until a token chooses them."""
        entries = {matrix: self.layout.entries[f"{path}.{matrix}"] for matrix in MATRICES}
        return ExpertsOnDemand(self.config, lambda matrix, expert: self._expert(entries[matrix], expert))

    def _fill(self, model: KimiK3, entry: TensorEntry, dtype: torch.dtype | None, device: str) -> None:
        owner, _, leaf = entry.parameter.rpartition(".")
        module = model.get_submodule(owner)
        if isinstance(module, PackedExperts):
            self._fill_packed(module, leaf, entry, device)
        elif not isinstance(module, ExpertsOnDemand):
            value = self._bank(entry, dtype, device) if entry.experts else self._single(entry, dtype, device)
            shape = getattr(module, leaf).shape
            setattr(module, leaf, nn.Parameter(value.reshape(shape), requires_grad=False))

    def _fill_packed(self, module: PackedExperts, matrix: str, entry: TensorEntry, device: str) -> None:
        module.to(device)
        for expert in range(entry.experts):
            for tensor, target in zip(entry.of(expert), module.stored(matrix, expert), strict=True):
                target.copy_(self.folder.view(tensor.name))
                self.folder.release(tensor.name)

    def _bank(self, entry: TensorEntry, dtype: torch.dtype | None, device: str) -> Tensor:
        """One matrix of all experts, stacked one by one: memory holds the stack and no second copy."""
        stack = None
        for expert in range(entry.experts):
            one = self._expert(entry, expert)
            if stack is None:
                stack = torch.empty(entry.experts, *one.shape, dtype=dtype or one.dtype, device=device)
            stack[expert].copy_(one)
        return stack

    def _expert(self, entry: TensorEntry, expert: int) -> Tensor:
        """One matrix of one expert as numbers, out of the file."""
        names = [tensor.name for tensor in entry.of(expert)]
        views = [self.folder.view(name) for name in names]
        value = mxfp4.decode(*views) if entry.packed else views[0].clone()
        for name in names:
            self.folder.release(name)
        return value

    def _single(self, entry: TensorEntry, dtype: torch.dtype | None, device: str) -> Tensor:
        view = self.folder.view(entry.name)
        if dtype is not None and entry.exact:
            dtype = torch.promote_types(dtype, torch.float32)
        value = view.to(device=device, dtype=dtype or view.dtype)
        if value is not view:
            self.folder.release(entry.name)
        return value

    def _missing(self) -> tuple[str, ...]:
        """Names that the config asks for and the folder has not; those it has are checked on the way."""
        missing, indexed = self._compare()
        if indexed < len(self.folder.weight_map):  # the names of another tool, or of another model
            self.folder = OfficialNames(self.folder, self.layout)
            if self.folder.unknown:
                raise ValueError(unknown(self.folder.path, self.folder.unknown, self.layout))
            missing, _ = self._compare()
        return tuple(missing)

    def _compare(self) -> tuple[list[str], int]:
        """What is missing, and how many official names the folder has."""
        missing, indexed, weight_map = [], 0, self.folder.weight_map
        for tensor in self.layout:
            indexed += tensor.name in weight_map
            if header := self.folder.header(tensor.name):
                check(tensor, header, self.folder.path)
            else:
                missing.append(tensor.name)
        return missing, indexed

    def _check_head(self) -> None:
        """A tied head may be stored beside the table; then both are the same numbers."""
        head = self.folder.tied_head if isinstance(self.folder, OfficialNames) else ""
        if not head:
            return
        table = next(
            entry.name for path, entry in self.layout.entries.items() if path.endswith("embed_tokens.weight")
        )
        if not torch.equal(self.folder.folder.view(head), self.folder.view(table)):
            raise ValueError(
                f"{self.folder.path}: config.json says that the LM head is the embedding table "
                f"(tie_word_embeddings), but {head} holds other numbers"
            )


def _with_padding(config: Config, folder: Folder | HeadersFile) -> Config:
    """config.json does not state how long A_log is stored: the tensor does."""
    for name, file in folder.weight_map.items():
        if (
            name.endswith(".A_log")
            and file in folder.files
            and name in (headers := folder.shard(file).headers)
        ):
            return replace(config, a_log_stored=prod(headers[name].shape))
    return config

"""Every tensor of the official layout: looked up and counted by name, without a list of half a million."""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from math import prod

import torch
from torch import nn

from k3scope.model.config import Config
from k3scope.model.moe import Experts
from k3scope.model.quantization.rules import Apart, Rules
from k3scope.model.quantization.scheme import Scheme

# bytes of one element
SIZE = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8, "U8": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8,
        "F8_E4M3": 1, "F8_E8M0": 1}  # fmt: skip
NAMES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64"}
# stored as F32 whatever the rest is stored as
EXACT = {
    "k3": ("_conv1d.weight", ".A_log", ".dt_bias", ".self_attn.o_norm.weight", ".e_score_correction_bias"),
    "kimi-linear": (".A_log", ".dt_bias"),
}
TEXT = "language_model."  # Kimi-Linear has no vision, and no such prefix
_NUMBER = re.compile(r"\.?experts\.(\d+)")
_EXPERT = re.compile(r"(.+\.experts)\.(0|[1-9]\d{0,8})\.(w[123])\.\w+")
# Linears that no writer or server of K3 quantises for their class alone: they lie around the experts
AROUND = ("routed_expert_down_proj", "routed_expert_up_proj", "_res_proj")


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor of a checkpoint and the parameter, or the slice of one, that it fills."""

    name: str
    parameter: str  # path in the module tree
    expert: int | None  # index into the first axis of the parameter
    shape: tuple[int, ...]  # as stored
    dtype: str
    role: str = "weight"  # or "packed" (several numbers an element), "scale" (never parameters)
    logical: tuple[int, ...] = field(default=(), compare=False)  # of the matrix, when this is packed
    label: str = field(default="", compare=False)  # of quantised numbers: "MXFP4"

    @property
    def bytes(self) -> int:
        return prod(self.shape) * SIZE[self.dtype]

    @property
    def parameters(self) -> int:
        return prod(self.logical or self.shape) if self.role != "scale" else 0


@dataclass(frozen=True)
class TensorEntry:
    """All tensors that one parameter becomes: one, or those of its format; in a bank, of every expert."""

    parameter: str
    name: str  # official; of an expert without number: "layers.1.block_sparse_moe.experts.w1"
    shape: tuple[int, ...]  # of one tensor, before packing
    dtype: str
    exact: bool = False  # stays F32 when the rest of the model is narrower
    experts: int = 0  # 0: not one of a bank of experts
    scheme: Scheme | None = None  # None: as numbers
    apart: Apart = ()  # experts of the bank with another scheme

    @property
    def packed(self) -> bool:
        """Whether these are experts in MXFP4, which can be decoded and run."""
        return bool(self.experts and self.scheme and self.scheme.runs and not self.apart)

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The formats in it; none for numbers as they are."""
        return tuple(dict.fromkeys(s for s in (self.scheme, *self._apart.values()) if s))

    @property
    def kinds(self) -> list[tuple[int | None, int]]:
        """An expert of each kind, and how many are stored like it; the common one first."""
        if not self.experts:
            return [(None, 1)]
        common = next(e for e in range(self.experts) if e not in self._apart)
        return [(common, self.experts - len(self.apart)), *((e, 1) for e in self._apart)]

    @cached_property
    def _apart(self) -> dict[int, Scheme | None]:
        return dict(self.apart)

    @property
    def parameters(self) -> int:
        return prod(self.shape) * max(self.experts, 1)

    @property
    def tensors(self) -> tuple[Stored, ...]:
        """The tensors of the parameter, or of the first expert that is stored as most are."""
        return tuple(self.of(self.kinds[0][0]))

    def of(self, expert: int | None) -> Iterator[Stored]:
        """The tensors of one expert; of the full parameter when it is no bank."""
        name = self.name
        if expert is not None:
            base, _, matrix = name.rpartition(".")
            name = f"{base}.{expert}.{matrix}.weight"
        scheme = self._apart.get(expert, self.scheme)
        if scheme is None:
            yield Stored(name, self.parameter, expert, self.shape, self.dtype)
            return
        module, label = name.removesuffix("weight"), scheme.label
        for p in scheme.parts(*self.shape, self.dtype):
            logical = self.shape if p.role == "packed" else ()
            yield Stored(
                f"{module}{p.suffix}", self.parameter, expert, p.shape, p.dtype, p.role, logical, label
            )


@dataclass(frozen=True)
class Storage:
    """What a set of parameters takes in a checkpoint."""

    tensors: int
    by_dtype: dict[str, int]  # tensors of each dtype
    parameters: int
    bytes: int
    scale_bytes: int  # part of `bytes`; never parameters
    labels: tuple[str, ...] = ()  # of quantised numbers: "MXFP4"


class Layout:
    """The official tensors of a model. Parameters that modules share are stored once.

    `names` gives those of a checkpoint, which say what its config leaves open.
    """

    def __init__(self, model: nn.Module, config: Config, names: Callable[[], Container[str]] | None = None):
        self.config = config
        self.entries: dict[str, TensorEntry] = {}
        self._rules = config.quantization.rules if config.quantization else Rules()
        self._aliases: dict[str, str] = {}  # further paths of a shared parameter
        first_path: dict[int, str] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            for leaf, shape in getattr(module, "bank", {}).items():  # experts that are no parameters now
                self.entries[f"{path}.{leaf}"] = self._entry(f"{path}.{leaf}", shape, module)
            for leaf, parameter in module.named_parameters(recurse=False):
                full = f"{path}.{leaf}" if path else leaf
                first = first_path.setdefault(id(parameter), full)
                if first != full:
                    self._aliases[full] = first
                else:
                    self.entries[full] = self._entry(full, tuple(parameter.shape), module)
        if config.quantization:
            self._keep_around(names)
            for entry in self.entries.values():
                _check_sizes(entry)

    @cached_property
    def cannot_run(self) -> str:
        """Why quantised numbers are counted but not decoded here, as a sentence; "" when all can run."""
        strange = [e for e in self.entries.values() if e.schemes and not e.packed]
        if not strange:
            return ""
        first = strange[0].schemes[0]
        return (
            f"its numbers are stored as {first}, a format that is counted and drawn but does not run here "
            "(only routed experts in mxfp4-pack-quantized with groups of 32 do)"
        )

    def _entry(self, path: str, shape: tuple[int, ...], module: nn.Module) -> TensorEntry:
        c = self.config
        family = c.family
        name = path if family == "k3" else path.removeprefix(TEXT)
        if isinstance(module, Experts) or hasattr(module, "bank"):
            experts, *shape = shape
            base, _, matrix = name.rpartition(".")
            kinds = self._rules.bank(base, matrix, experts)
            return TensorEntry(path, name, tuple(shape), NAMES[c.stored], False, experts, *kinds)
        if family == "kimi-linear" and path.endswith(".A_log"):
            shape = (1, 1, *shape, 1)
        exact = path.endswith(EXACT[family])
        scheme = None
        if isinstance(module, nn.Linear | nn.Embedding) and name.endswith(".weight"):
            kind = "Linear" if isinstance(module, nn.Linear) else "Embedding"
            scheme = self._rules.scheme(name.removesuffix(".weight"), kind)
        dtype = "F32" if exact else NAMES[c.stored]
        return TensorEntry(path, name, shape, dtype, exact, scheme=scheme)

    def _keep_around(self, names: Callable[[], Container[str]] | None) -> None:
        """Linears around the experts that only the class "Linear" targets: the names of the tensors decide.

        Without names they are as they are when nothing else but experts is quantised: no pattern of the
        release's `ignore` names them, its index has them in BF16, and vLLM builds them without a
        quantization config.
        """
        rest = [e for e in self.entries.values() if e.scheme and not e.experts]
        around = [e for e in rest if self._is_around(e)]
        known = names() if names and around else ()
        for entry in around:
            quantised = len(rest) > len(around)
            if known and any(name in known for name in (entry.name, *(t.name for t in entry.tensors))):
                quantised = any(t.name in known for t in entry.tensors if t.name != entry.name)
            if not quantised:
                self.entries[entry.parameter] = replace(entry, scheme=None)

    def _is_around(self, entry: TensorEntry) -> bool:
        module = entry.name.removesuffix(".weight")
        return module.endswith(AROUND) and not self._rules.named(module)

    def __iter__(self) -> Iterator[Stored]:
        """Every tensor in the order of the tree, expert by expert."""
        for base, bank in groupby(
            self.entries.values(), lambda e: e.name.rpartition(".")[0] if e.experts else None
        ):
            bank = list(bank)
            if base is None:
                for entry in bank:
                    yield from entry.of(None)
            else:
                for expert in range(bank[0].experts):
                    for entry in bank:
                        yield from entry.of(expert)

    def __len__(self) -> int:
        return self.storage().tensors

    def find(self, name: str) -> Stored | None:
        """The tensor of that official name, read off the name itself; None when there is none."""
        if match := _EXPERT.fullmatch(name):
            base, expert, matrix = match.groups()
            entry = self._by_name.get(f"{base}.{matrix}")
            if entry is None or int(expert) >= entry.experts:
                return None
            return next((t for t in entry.of(int(expert)) if t.name == name), None)
        entry = self._by_name.get(name)
        if entry is None or entry.experts:
            return None
        return next((t for t in entry.tensors if t.name == name), None)

    def entry(self, name: str) -> TensorEntry | None:
        """What a parameter becomes, by its official name; of a bank of experts without number and suffix."""
        return self._by_name.get(name)

    def search(self, text: str, limit: int) -> list[tuple[Stored, int]]:
        """Tensors whose name contains `text`, and how many are alike: experts stand together.

        A number after `experts.` picks that expert; otherwise expert 0 stands for all.
        """
        match = _NUMBER.search(text)
        matches = []
        for entry in self.entries.values():
            expert = None if not entry.experts else int(match[1]) if match else 0
            if expert is not None and expert >= entry.experts:
                continue
            alike = 1 if match else max(entry.experts, 1)
            matches += [(t, alike) for t in entry.of(expert) if text in t.name or text in entry.name]
            if len(matches) >= limit:
                break
        return matches[:limit]

    def storage(self, parameters: Iterable[str] | None = None) -> Storage:
        """Sums over some parameters (all of them by default), a shared one counted once."""
        paths = self.entries if parameters is None else {self._aliases.get(p, p) for p in parameters}
        by_dtype: dict[str, int] = {}
        labels: dict[str, None] = {}
        elements = stored = scales = 0
        for entry in (self.entries[p] for p in paths):
            elements += entry.parameters
            labels |= dict.fromkeys(scheme.label for scheme in entry.schemes)
            for tensor, copies in ((t, n) for expert, n in entry.kinds for t in entry.of(expert)):
                by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0) + copies
                stored += tensor.bytes * copies
                scales += tensor.bytes * copies if tensor.role == "scale" else 0
        return Storage(sum(by_dtype.values()), by_dtype, elements, stored, scales, tuple(labels))

    @cached_property
    def _by_name(self) -> dict[str, TensorEntry]:
        names = {entry.name: entry for entry in self.entries.values()}
        quantised = [e for e in self.entries.values() if e.scheme and not e.experts]
        return names | {tensor.name: entry for entry in quantised for tensor in entry.tensors}


def _check_sizes(entry: TensorEntry) -> None:
    """ValueError names a tensor whose format has no place for its sizes."""
    try:
        for scheme in entry.schemes:
            scheme.parts(*entry.shape, entry.dtype)
    except ValueError as error:
        raise ValueError(f"config.json: quantization_config of {entry.name}: {error}") from None


def cast(model: nn.Module, config: Config, dtype: torch.dtype) -> nn.Module:
    """Change the dtype of a model, in place; what a release stores as F32 never gets narrower than that."""
    for path, entry in Layout(model, config).entries.items():
        parameter = model.get_parameter(path)
        parameter.data = parameter.data.to(
            torch.promote_types(dtype, torch.float32) if entry.exact else dtype
        )
    return model

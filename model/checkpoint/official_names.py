"""Tensors of a folder under their official names, whatever tool wrote them.

Other tools leave out `language_model.`, stack the experts of a layer in one tensor, or join what the release
keeps apart. Such a tensor is read in parts, each under the name that the release has for it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from k3scope.model.checkpoint.tensor_layout import TEXT, Layout
from k3scope.model.files.checkpoint_folder import Folder
from k3scope.model.files.headers_file import HeadersFile
from k3scope.model.files.safetensors_header import TensorHeader

LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,9})\.")
_ROOT = re.compile(r"(?:(?:model|language_model|module|_orig_mod|base_model)\.)+")
SEEING = ("vision_tower.", "mm_projector.")
# where the names inside a model begin
_INSIDE = re.compile(
    r"(?<![^.])(?:model\.|language_model\.)*(?:layers\.\d|embed_tokens\.|lm_head\.|vision_tower\.|mm_projector\.)"
)
# as transformers names the same modules, and others the matrices of an expert
_RENAMED = (
    (re.compile(r"\.self_attn\.forget_gate\."), ".self_attn."),
    (re.compile(r"\.mlp\.(?=gate\.|experts\.|shared_experts\.|routed_expert_)"), ".block_sparse_moe."),
    (re.compile(r"\.block_sparse_moe\.(?=(?:gate|up|down)_proj\.)"), ".mlp."),
    (re.compile(r"(\.experts\.(?:\d+\.)?)gate_proj\b"), r"\1w1"),
    (re.compile(r"(\.experts\.(?:\d+\.)?)up_proj\b"), r"\1w3"),
    (re.compile(r"(\.experts\.(?:\d+\.)?)down_proj\b"), r"\1w2"),
)
_STACKED = re.compile(r"(.+\.experts)\.(w[123]|gate_up_proj)(?:\.weight)?")
_JOINED = re.compile(r"(.+\.self_attn\.)conv1d\.weight")
# buffers that code computes for itself: nothing reads them
_BUFFERS = re.compile(
    r"(?:^|\.)(?:inv_freq|position_ids|freqs_cis|freqs_cos|freqs_sin|time_weight|masked_bias|_extra_state|"
    r"num_batches_tracked)$"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an official tensor is: a stored one, or a part of it."""

    stored: str
    index: tuple[int | slice, ...] = ()

    def shape(self, stored: tuple[int, ...]) -> tuple[int, ...]:
        """Of the part, in a tensor of that shape; () when there is no such part."""
        if len(stored) < len(self.index):
            return ()
        kept = []
        for size, part in zip(stored, self.index, strict=False):
            if isinstance(part, slice):
                kept.append(len(range(*part.indices(size))))
            elif part >= size:
                return ()
        return (*kept, *stored[len(self.index) :])


class OfficialNames:
    """A folder that is asked for official names. `unknown` is what has none, `ignored` what nothing needs."""

    def __init__(self, folder: Folder | HeadersFile, layout: Layout):
        self.folder, self.path = folder, folder.path
        self._layout = layout
        self._parts: dict[str, Place] = {}
        self.unknown: list[str] = []
        self.ignored: list[str] = []
        self.tied_head = ""  # stored though the model has no head of its own
        for stored in folder.weight_map:
            self._add(stored)
        self.weight_map = {name: folder.weight_map[part.stored] for name, part in self._parts.items()}

    @property
    def absent(self) -> list[str]:
        return self.folder.absent

    @property
    def files(self) -> list[str]:
        return self.folder.files

    def stored_name(self, name: str) -> str:
        """What the files call the tensor that has this official name, or the one it is a part of."""
        return self._parts[name].stored

    def header(self, name: str) -> TensorHeader | None:
        """As `Folder.header`, with the shape of the part."""
        part = self._parts.get(name)
        header = None if part is None else self.folder.header(part.stored)
        return header and replace(header, shape=part.shape(header.shape))

    def view(self, name: str) -> Tensor:
        """The numbers of a tensor, still in the file."""
        part = self._parts[name]
        return self.folder.view(part.stored)[part.index]

    def release(self, name: str) -> None:
        """Drop the pages of the whole stored tensor: those of further parts are read again."""
        self.folder.release(self._parts[name].stored)

    def close(self) -> None:
        self.folder.close()

    def _add(self, stored: str) -> None:
        official, parts = official_name(stored, self._layout.config.family), {}
        if self._layout.find(official) is not None:
            parts[official] = Place(stored)
        elif match := _STACKED.fullmatch(official):
            parts = dict(self._experts(stored, *match.groups()))
        elif match := _JOINED.fullmatch(official):
            parts = dict(self._convolutions(stored, match[1]))
        elif not self._layout.config.own_head and official.endswith("lm_head.weight"):
            self.tied_head = stored
            return
        elif _BUFFERS.search(official):
            self.ignored.append(stored)
            return
        if not parts:
            self.unknown.append(stored)
        for name, part in parts.items():
            if (other := self._parts.setdefault(name, part)) is not part:
                raise ValueError(f"{self.path}: {other.stored} and {stored} are both {name}")

    def _experts(self, stored: str, bank: str, matrix: str) -> Iterator[tuple[str, Place]]:
        """One tensor [experts, rows, columns]; of w1 and w3 together, w1 has the first rows."""
        for one in ("w1", "w3") if matrix == "gate_up_proj" else (matrix,):
            entry = self._layout.entry(f"{bank}.{one}")
            if entry is None or entry.scheme or not entry.experts:
                return
            rows = entry.shape[0]
            half = {"w1": (slice(0, rows),), "w3": (slice(rows, None),)} if matrix != one else {}
            for expert in range(entry.experts):
                name = next(entry.of(expert)).name
                yield name, Place(stored, (expert, *half.get(one, ())))

    def _convolutions(self, stored: str, attention: str) -> Iterator[tuple[str, Place]]:
        """The kernels of queries, keys and values, one below the other."""
        for n, one in enumerate("qkv"):
            entry = self._layout.entry(f"{attention}{one}_conv1d.weight")
            if entry is None:
                return
            rows = entry.shape[0]
            yield entry.name, Place(stored, (slice(n * rows, (n + 1) * rows if n < 2 else None),))


def official_name(name: str, family: str) -> str:
    """What the release calls a tensor that another tool calls `name`, as far as names alone tell."""
    rest = _ROOT.sub("", name, count=1) if _ROOT.match(name) else name
    if rest.startswith(SEEING):
        return rest
    for pattern, replacement in _RENAMED:
        rest = pattern.sub(replacement, rest)
    text = TEXT if family == "k3" else ""
    return text + rest if rest.startswith("lm_head.") else f"{text}model.{rest}"


def unknown_prefix(names: Iterable[str], layout: Layout) -> str:
    """What stands before otherwise official names: "net.core." of "net.core.layers.0.…"; "" for nothing."""
    found: Counter[str] = Counter()
    for name in names:
        if (match := _INSIDE.search(name)) and match.start():
            rest = official_name(name[match.start() :], layout.config.family)
            found[name[: match.start()]] += layout.find(rest) is not None
    return max(found, key=found.__getitem__) if any(found.values()) else ""

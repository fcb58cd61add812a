"""Where a block lives in a model: its instances, its parameters and its points."""

import difflib
import re
from functools import cache, lru_cache

from torch import nn

from k3scope.diagrams.spec.block_spec import Block
from k3scope.model.hooks import Probe
from k3scope.model.kimi_k3 import KimiK3


def instances(model: KimiK3, block: Block) -> list[str]:
    """Paths of all modules that play this role, in forward order. ValueError when there is none."""
    needed = tuple(leaf for leaf in block.leaves if leaf not in block.optional)
    paths = _instances(model, block.at, block.of, needed)
    if not paths:
        raise ValueError(_no_instance(model, block))
    return list(paths)


def resolve(path: str, relative: str) -> str:
    """Full path of a leaf or point named relative to an instance; "." is itself, "../" goes up."""
    if relative == ".":
        return path
    while relative.startswith("../"):
        path, relative = path.rpartition(".")[0], relative[3:]
    return f"{path}.{relative}" if path else relative


def exists(model: KimiK3, path: str) -> bool:
    return path in _modules(model) or path in _parameters(model)


def is_parameter(model: KimiK3, path: str) -> bool:
    return path in _parameters(model)


def parameters(model: KimiK3, block: Block, path: str) -> dict[str, nn.Parameter]:
    """Parameters that this instance owns, by full path."""
    own = [resolve(path, leaf) for leaf in block.leaves]
    table = _parameters(model)
    return {p: table[p] for p in own if p in table}


def points(model: KimiK3, block: Block, path: str) -> list[str]:
    """Full paths of the block's outputs and probes at an instance."""
    inner = [leaf for leaf in block.leaves if leaf not in block.out]
    paths = [resolve(path, p) for p in (*block.out, *inner)]
    return [p for p in paths if p in _modules(model)]


def probes(model: KimiK3) -> set[str]:
    return {path for path, module in _modules(model).items() if isinstance(module, Probe)}


def layer_of(path: str) -> int | None:
    """The layer a path lies in, None outside the stack."""
    match = re.search(r"\.layers\.(\d+)(\.|$)", path)
    return int(match[1]) if match else None


def of_all_layers(name: str) -> str:
    """A name for all layers at once: "layers.L.self_attn.o_proj.weight"."""
    return re.sub(r"\.(layers|blocks)\.\d+\.", r".\1.L.", name)


@lru_cache(maxsize=512)
def _instances(
    model: KimiK3, at: tuple[str, ...], of: tuple[str, ...], leaves: tuple[str, ...]
) -> tuple[str, ...]:
    pattern = re.compile("|".join(re.escape(p).replace(r"\*", "[^.]+") for p in at))
    return tuple(
        path
        for path, module in _modules(model).items()
        if not _class_names(type(module)).isdisjoint(of)
        and pattern.fullmatch(path)
        and all(exists(model, resolve(path, leaf)) for leaf in leaves)
    )


@cache
def _class_names(kind: type) -> frozenset[str]:
    """Of the class and all that it extends."""
    return frozenset(cls.__name__ for cls in kind.__mro__)


@lru_cache(maxsize=16)
def _modules(model: KimiK3) -> dict[str, nn.Module]:
    return dict(model.named_modules())


@lru_cache(maxsize=16)
def _parameters(model: KimiK3) -> dict[str, nn.Parameter]:
    return dict(model.named_parameters())


def _no_instance(model: KimiK3, block: Block) -> str:
    sentence = f"{block.id}.yaml: no {' or '.join(block.of)} at {' or '.join(block.at)}"
    classes = {type(m).__name__ for m in model.modules()}
    for name in block.of:
        if name not in classes:
            close = difflib.get_close_matches(name, classes, 1)
            return f"{sentence}: {name!r} is no class in this model" + (
                f"; did you mean {close[0]!r}?" if close else ""
            )
    return f"{sentence} with the leaves {', '.join(block.leaves) or '(none)'}"

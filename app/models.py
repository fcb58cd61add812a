"""The models of the page: which are drawn, which stand beside them, which run, and why some do not."""

import os
from functools import cache
from pathlib import Path

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec.format_numbers import size
from k3scope.model.checkpoint.checkpoint import open_checkpoint
from k3scope.model.checkpoint.model_registry import REGISTERED, RegisteredModel, headers_of, register
from k3scope.model.checkpoint.tokenizer_of import tokenizer_of
from k3scope.model.config_limits import check_drawn
from k3scope.model.files.checkpoint_folder import Folder
from k3scope.model.presets import DRAWN, META_ONLY, PRESETS, TRAINED

RUNNABLE = (*TRAINED, *(name for name in PRESETS if name not in META_ONLY))
TITLES = {"kimi-k3": "Kimi K3", "kimi-linear-48b": "Kimi-Linear-48B"}
BYTES_PER_PARAMETER = 4  # it runs in float32, whatever the checkpoint stores


def title(model: str) -> str:
    """Name of a model on the page: the release by its full name, others as they are registered."""
    return TITLES.get(model, model)


def add(text: str) -> RegisteredModel:
    """Register NAME=PATH of the command line. ValueError when that cannot be drawn."""
    name, equals, path = text.partition("=")
    if not equals or not path:
        raise ValueError(f"--model {text}: expected NAME=PATH")
    try:
        model = register(name, path)
        check_drawn(*model.config.depths)
        return model
    except ValueError as error:
        where = Path(path).expanduser().resolve()
        why = str(error).removeprefix(f"{where}: ").removeprefix(f"{where}/")
        raise ValueError(f"--model {text}: {why}") from None


def drawn() -> tuple[str, ...]:
    """Models that a link may name."""
    return (*DRAWN, *REGISTERED)


def compared() -> tuple[str, ...]:
    """Models that may be compared with the drawn one."""
    return (*PRESETS, *TRAINED, *REGISTERED)


@cache
def why_not_runnable(name: str) -> str:
    """Why a model does not run here, as a phrase; "" when it does. Cached: the folders are read once."""
    if name in RUNNABLE:
        return ""
    if name not in REGISTERED:
        return "only its shapes and counts are at hand"
    path = REGISTERED[name].path
    if headers := headers_of(name):
        missing = without_path(name, headers.problem)
        return "there are no weights, only their headers" + (f": {missing}" if missing else "")
    if not path.is_dir() or not Folder.has_weights(path):
        return "there are no weights, only its config.json"
    try:
        checkpoint = open_checkpoint(path)
        if reason := checkpoint.layout.cannot_run or checkpoint.problem():
            return without_path(name, reason)
        tokenizer_of(name, REGISTERED[name].config.vocab)
    except ValueError as error:
        return without_path(name, str(error))
    needed, memory = BYTES_PER_PARAMETER * Facts.of(name).totals.total, _memory()
    if memory and needed > memory:
        return f"its numbers take {size(needed)}, and this machine has {size(memory)} of memory"
    return ""


def without_path(name: str, text: str) -> str:
    """A sentence for visitors, without the path of a model on this machine."""
    if name not in REGISTERED:
        return text
    return text.replace(f"{REGISTERED[name].path}: ", "").replace(str(REGISTERED[name].path), name)


def _memory() -> int:
    """Bytes of memory of this machine; 0 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0

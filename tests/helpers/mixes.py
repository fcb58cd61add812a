"""Small models of every mix of layers, and checkpoints of them."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from k3scope.assets import MODELS
from k3scope.model import save_pretrained
from k3scope.model.config import Config
from k3scope.model.init import random_model
from k3scope.model.presets import K3_TINY, KIMI_LINEAR

SMALL = replace(K3_TINY, kinds=("kda", "kda", "mla"), block=2)
OLDER = replace(
    KIMI_LINEAR,
    **{
        name: getattr(K3_TINY, name)
        for name in (
            *("vocab", "d", "dense", "kda_heads", "kda_head_dim", "conv", "heads", "kv_rank", "nope_dim"),
            *(
                "shared_key_dim",
                "v_dim",
                "experts",
                "top_k",
                "expert_dim",
                "bos",
                "eos",
                "pad",
                "max_positions",
            ),
        )
    },
    kinds=("kda", "kda", "mla"),
    shared_experts=1,
    gate_rank=K3_TINY.kda_head_dim,
    a_log_stored=K3_TINY.kda_heads,
)
CHANGES = {
    "kda-only": {"kinds": ("kda",) * 3},
    "mla-only": {"kinds": ("mla",) * 3},
    "dense-only": {"dense_layers": 3},
    "one-kda-layer": {"kinds": ("kda",)},
    "one-mla-layer": {"kinds": ("mla",)},
    "one-moe-layer": {"kinds": ("kda",), "dense_layers": 0},
    "moe-from-0": {"dense_layers": 0},
    "blind": {"vision": None, "media_pad": None},
    "plain-residuals": {"block": None},
    "no-shared-expert": {"shared_experts": 0},
    "tied": {"own_head": False},
    "kda-dense": {"kinds": ("kda",) * 2, "dense_layers": 2},
    "mla-plain": {"kinds": ("mla",) * 2, "block": None, "shared_experts": 0},
    "one-mla-plain": {"kinds": ("mla",), "block": None, "dense_layers": 0, "vision": None, "media_pad": None},
}


def _mixes() -> dict[str, Config]:
    """By name; those that the older family has too begin with "linear-"."""
    mixes = {"all": SMALL} | {name: replace(SMALL, **change) for name, change in CHANGES.items()}
    for name, change in CHANGES.items():
        kept = {
            field: value for field, value in change.items() if field not in ("block", "vision", "media_pad")
        }
        if kept:
            mixes[f"linear-{name}"] = replace(OLDER, **kept)
    return mixes


MIXES = _mixes()


def save(names: Iterable[str], root: Path) -> dict[str, Path]:
    """Checkpoint folders with a tokenizer, by name."""
    folders = {name: root / name for name in names}
    for name, folder in folders.items():
        save_pretrained(random_model(MIXES[name]), folder)
        shutil.copy(MODELS / "k3-tiny" / "tokenizer.json", folder)
    return folders

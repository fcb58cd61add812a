"""What a reader must know about counts of a model that no index was held against."""

from pathlib import Path

from k3scope.model.checkpoint.model_registry import folder_of
from k3scope.model.checkpoint.tensor_layout import Layout
from k3scope.model.config import Config
from k3scope.model.files.checkpoint_folder import Folder
from k3scope.model.presets import PRESETS, TRAINED


def files_of(name: str) -> Path | None:
    """Where a model of that name or path is read from; None when it comes with the program."""
    return None if name in PRESETS or name in TRAINED else folder_of(name)


def folder_at(path: Path | None) -> Folder | None:
    """The files of a checkpoint, when there are any."""
    return Folder(path) if path and path.is_dir() and Folder.has_weights(path) else None


def count_notes(layout: Layout, path: Path | None) -> tuple[str, ...]:
    """Sentences on the tensors and bytes of a model that is read from `path`; None: only a config is here."""
    c = layout.config
    folder = folder_at(path)
    notes = [*_quantised(layout, folder), *(c.quantization.notes if c.quantization else ())]
    return tuple(notes if folder else notes + _padding(c))


def rule_note(layout: Layout) -> str:
    """That a quantised format was counted by its rule alone.

    "" for experts stored as those of the release, whose index agrees with the rule.
    """
    if not layout.cannot_run:
        return ""
    return f"Counted by the rule of {layout.config.quantization}; not held against an index."


def _quantised(layout: Layout, folder: Folder | None) -> list[str]:
    if not (note := rule_note(layout)):
        return []
    if folder is None:
        return [note]
    here, counted = len(folder.weight_map), layout.storage().tensors
    if here == counted:
        return []
    rule = layout.config.quantization
    return [f"Counted by the rule of {rule}: {counted:,} tensors; the files here list {here:,}."]


def _padding(c: Config) -> list[str]:
    """config.json does not say how long A_log is stored."""
    if c.a_log_stored != c.kda_heads:
        return [
            f"A_log is counted with {c.a_log_stored} entries a layer for {c.kda_heads} heads: these are the "
            "sizes of Kimi K3, whose index has them so; config.json does not say it."
        ]
    if c.family != "k3":
        return []
    return [
        f"A_log is counted with one entry a head, {c.kda_heads} a layer: config.json does not say whether a "
        "checkpoint pads it, as that of Kimi K3 does."
    ]

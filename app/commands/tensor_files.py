"""Files that a person names on the command line."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file. ValueError when it cannot be read."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: not a safetensors file that can be read ({error})") from None


def write_tensors(tensors: dict[str, Tensor], path: str | Path) -> None:
    """ValueError when the place cannot be written."""
    try:
        save_file(tensors, path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"cannot write {path} ({error})") from None

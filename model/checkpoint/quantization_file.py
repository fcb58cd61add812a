"""A format that is said in a file beside config.json, as some writers do, and not in it."""

from pathlib import Path
from typing import Any

from k3scope.model.config_limits import LARGEST_FILE
from k3scope.model.files.json_file import read_json
from k3scope.model.quantization.config_object import KEY
from k3scope.model.quantization.quantization import is_said

# file -> quant_method, and the key in it that has the rest; "": it is the object itself
FILES = {
    "hf_quant_config.json": ("modelopt", "quantization"),
    "quantize_config.json": ("gptq", ""),
    "quant_config.json": ("awq", ""),
}


def with_file_beside(official: Any, folder: Path) -> Any:
    """What config.json holds; if it says nothing of quantisation, with what a file beside it says."""
    if not isinstance(official, dict) or is_said(official):
        return official
    for name, (method, key) in FILES.items():
        if (folder / name).is_file():
            content = read_json(folder / name, LARGEST_FILE)
            content = content.get(key) if key and isinstance(content, dict) else content
            if not isinstance(content, dict):
                raise ValueError(f"{folder / name}: expected an object{f' under {key!r}' * bool(key)}")
            return official | {KEY: {"quant_method": method} | content}
    return official

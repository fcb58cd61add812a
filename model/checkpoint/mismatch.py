"""What contradicts between the tensors of a folder and those that its config.json asks for, in a sentence."""

from math import prod
from pathlib import Path

from k3scope.model.checkpoint.official_names import LAYER, unknown_prefix
from k3scope.model.checkpoint.tensor_layout import Layout, Stored
from k3scope.model.files.safetensors_header import TensorHeader

_FLOATS = {"BF16", "F16", "F32", "F64"}
# what a name of another kind tells, and the step that would help
_STEPS = {
    "lora_": "these are the weights of a LoRA adapter; merge them into the model first",
    "blk.": "these are the names of llama.cpp; the files that were converted to it can be read",
    "decoder.layers.": "these are the names of Megatron; convert them to the Hugging Face layout first",
}


def check(tensor: Stored, header: TensorHeader, path: Path) -> None:
    """ValueError when a tensor has another shape or dtype than config.json asks for."""
    same = header.shape == tensor.shape
    if tensor.name.endswith(".A_log") or prod(tensor.shape) == 1:  # [heads] or [1, 1, heads, 1]; [] or [1]
        same = prod(header.shape) == prod(tensor.shape)
    if not same:
        requirement = f"config.json asks for {tensor.shape}"
        if len(tensor.shape) == 2 and header.shape == tensor.shape[::-1]:
            requirement += "; its two axes are swapped"
        raise ValueError(f"{path}: {tensor.name} is stored as {header.shape}; {requirement}")
    good = _FLOATS if tensor.dtype in _FLOATS else {tensor.dtype}
    if header.dtype not in good:
        names = " or ".join(sorted(good))
        raise ValueError(f"{path}: {tensor.name} is stored as {header.dtype}; expected {names}")


def unknown(path: Path, names: list[str], layout: Layout) -> str:
    """Names that the config does not ask for, and the step that would help."""
    first, c, reason = names[0], layout.config, ""
    if first.endswith((".weight_packed", ".weight_scale")) and not c.packed_experts:
        reason = ": experts are stored as MXFP4, and config.json has no quantization_config of that kind"
    elif c.quantization and not c.packed_experts:
        reason = f": config.json says that numbers are stored as {c.quantization}"
    elif ".experts." in first and c.packed_experts:
        reason = ": config.json says that experts are stored as MXFP4"
    elif (layer := LAYER.search(first)) and int(layer[1]) >= c.layers:
        reason = f": config.json says that there are {c.layers} layers"
    elif prefix := unknown_prefix(names, layout):
        reason = f": only the prefix differs; write the names without {prefix!r}"
    elif step := next((step for mark, step in _STEPS.items() if mark in first), ""):
        reason = f": {step}"
    return f"{path}: {len(names):,} unknown tensors, first {first}{reason}"

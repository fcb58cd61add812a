"""`quantization_config` of a model: where it stands in config.json, and what it says."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from reprlib import repr as short
from typing import Any

from k3scope.model.quantization import compressed_tensors, other_writers
from k3scope.model.quantization.compressed_scheme import FORMATS
from k3scope.model.quantization.config_object import KEY, ConfigObject, unknown
from k3scope.model.quantization.rules import Rules

READERS = {
    "compressed-tensors": compressed_tensors.read,
    "fp8": other_writers.fp8,
    "modelopt": other_writers.modelopt,
    "modelopt_fp4": other_writers.modelopt,
    "modelopt_mixed": other_writers.modelopt,
    "gptq": other_writers.gptq,
    "awq": other_writers.awq,
}
OLDER = "compression_config"  # what compressed-tensors wrote before 2025
KNOWN = (*FORMATS, *(m for m in READERS if m != "compressed-tensors"))


@dataclass(frozen=True)
class Quantization:
    """A `quantization_config` that was understood. Two are equal when they say the same."""

    text: str  # the object as JSON, keys sorted
    nested: bool = field(default=True, compare=False)  # it stands in text_config

    @staticmethod
    def of(content: dict[str, Any], nested: bool = True) -> "Quantization":
        """ValueError when a key is missing, contradictory or not known here."""
        made = Quantization(json.dumps(_plain(content), sort_keys=True), nested)
        assert made.rules is not None
        return made

    def __reduce__(self):
        """To another process goes the text alone: it is read there."""
        return Quantization, (self.text, self.nested)

    @property
    def content(self) -> dict[str, Any]:
        return json.loads(self.text)

    @cached_property
    def rules(self) -> Rules:
        """Which modules are quantised, and how."""
        return READERS[self.method](ConfigObject(self.content))

    @cached_property
    def method(self) -> str:
        """quant_method, which older files leave out."""
        content = self.content
        method = content.get("quant_method")
        if method is None and ("config_groups" in content or "format" in content):
            method = "compressed-tensors"
        elif method is None and "weight_block_size" in content:
            method = "fp8"
        if not isinstance(method, str) or method.lower() not in READERS:
            raise unknown("(no quant_method)" if method is None else method, KNOWN)
        return method.lower()

    @property
    def formats(self) -> tuple[str, ...]:
        """Public names of the formats in it."""
        return tuple(dict.fromkeys(s.format for s in self.rules.schemes if s.format != "dense"))

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(str(s) for s in self.rules.schemes if s.format != "dense")) or "none"

    @property
    def notes(self) -> tuple[str, ...]:
        """What it says beyond the weights, and is not counted."""
        return tuple(compressed_tensors.notes(ConfigObject(self.content)))


def quantization_of(official: dict, text: dict) -> Quantization | None:
    """The `quantization_config` of a config.json, in `text_config` or at the top; None when there is none.

    Null counts as absent. ValueError when it is no object, or when two of them differ.
    """
    inner = _present(text) if text is not official else None
    outer = _present(official)
    vision = official.get("vision_config")
    if isinstance(vision, dict) and _present(vision) not in (None, inner, outer):
        raise ValueError(
            f"config.json: {KEY} of vision_config is not read; expected it in text_config or at the top"
        )
    if inner is not None and outer is not None and inner != outer:
        key = next(k for k in (*inner, *outer) if inner.get(k) != outer.get(k))
        raise ValueError(
            f"config.json: {KEY} stands in text_config and at the top level, and they differ: {key} is "
            f"{short(inner.get(key))} and {short(outer.get(key))}; expected one, or two that are equal"
        )
    content = outer if inner is None else inner
    return None if content is None else Quantization.of(content, nested=inner is not None)


def _plain(value: Any) -> Any:
    """The same with whole numbers as such: 32.0 is 32."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_said(official: dict) -> bool:
    """Whether a config.json says anything of quantisation, right or wrong."""
    sections = (official, official.get("text_config"))
    return any(s.get(key) is not None for s in sections if isinstance(s, dict) for key in (KEY, OLDER))


def _present(section: dict) -> dict | None:
    """The object of one place, also under the name that older files have for it."""
    for key in (KEY, OLDER):
        value = section.get(key)
        if value is not None and not isinstance(value, dict):
            raise ValueError(f"config.json: {key} is {short(value)}; expected an object")
        if value is not None:
            return value
    return None


# how routed experts are stored in the release, as `save_pretrained` writes it
MXFP4 = Quantization.of(
    {
        "quant_method": "compressed-tensors",
        "format": "mxfp4-pack-quantized",
        "quantization_status": "compressed",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {
                    "num_bits": 4, "type": "float", "group_size": 32, "strategy": "group",
                    "symmetric": True, "dynamic": False, "scale_dtype": "torch.uint8",
                },
            }
        },
        "ignore": [
            "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
            "re:.*lm_head.*", "re:.*vision_tower.*", "re:.*mm_projector.*",
        ],
    }
)  # fmt: skip

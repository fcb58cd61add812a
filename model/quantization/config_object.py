"""Values of `quantization_config`, each read with its key so that a sentence can name it."""

from dataclasses import dataclass
from reprlib import repr as short
from typing import Any

KEY = "quantization_config"
KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
# torch's name of a dtype -> that of safetensors
DTYPES = {
    "uint8": "U8", "int8": "I8", "int32": "I32", "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0",
    "bfloat16": "BF16", "float16": "F16", "float32": "F32",
}  # fmt: skip


@dataclass(frozen=True)
class ConfigObject:
    """An object of JSON and where it stands: "quantization_config.config_groups.group_0"."""

    values: dict[str, Any]
    path: str = KEY

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """A value of a kind; null and a missing key are the default."""
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise ValueError(f"{self.where(key)} is {short(value)}; expected {KINDS[kind]}")
        return value

    def inside(self, key: str) -> "ConfigObject | None":
        value = self.get(key, dict)
        return None if value is None else ConfigObject(value, f"{self.path}.{key}")

    def one_of(self, key: str, names: tuple[str, ...], default: str | None = None) -> str | None:
        value = self.get(key, str, default)
        if value is not None and (value := value.lower()) not in names:
            raise ValueError(f"{self.where(key)} is {short(value)}; expected one of {', '.join(names)}")
        return value

    def whole(self, key: str, default: int | None, least: int, most: int) -> int | None:
        """A whole number, also as 32.0."""
        value = self.values.get(key)
        if value is None:
            return default
        whole = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        if not whole or value != int(value):
            raise ValueError(
                f"{self.where(key)} is {short(value)}; expected a whole number from {least} to {most:,}"
            )
        return int(value)

    def pair(self, key: str) -> tuple[int, int] | None:
        """Rows and columns of a block: [128, 128], or "128x128"."""
        value = self.values.get(key)
        if value is None:
            return None
        sides = value.split("x") if isinstance(value, str) else value
        sides = (
            [int(s) if isinstance(s, str) and s.isdecimal() and len(s) < 8 else s for s in sides or ()]
            if isinstance(sides, list)
            else []
        )
        if len(sides) != 2 or not all(type(s) is int and 0 < s < 2**20 for s in sides):
            raise ValueError(f"{self.where(key)} is {short(value)}; expected two sizes such as [128, 128]")
        return sides[0], sides[1]

    def strings(self, key: str) -> list[str]:
        listed = self.get(key, list, [])
        if wrong := [s for s in listed if not isinstance(s, str)]:
            raise ValueError(f"{self.where(key)} holds {short(wrong[0])}; expected names and patterns")
        return listed

    def dtype(self, key: str) -> str | None:
        value = self.get(key, str)
        if value is not None and value.removeprefix("torch.") not in DTYPES:
            raise ValueError(f"{self.where(key)} is {short(value)}; expected one of {', '.join(DTYPES)}")
        return None if value is None else DTYPES[value.removeprefix("torch.")]

    def where(self, key: str) -> str:
        return f"config.json: {self.path}.{key}"


def unknown(name: Any, known: tuple[str, ...]) -> ValueError:
    """What is said of a format that nobody here knows the rule of."""
    shown = name if isinstance(name, str) and name.isprintable() else short(name)
    expected = ", ".join(known)
    return ValueError(
        f"config.json: quantization format {shown:.60} is not known here: expected one of {expected}"
    )

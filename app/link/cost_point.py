"""The point of the Cost view as the link writes it: "16384,1,decode,mxfp4,bf16,h200,16"."""

import re
from dataclasses import dataclass

from k3scope.diagrams.cost.roofline import BYTES, DEVICES, Device, Point

LIMITS = {"context": 2**20, "batch": 4096, "count": 1024}
DEVICE_BY_NAME = {device.name.split()[0].lower(): device for device in DEVICES}
CHOICES = {
    "phase": ("decode", "prefill"),
    "experts": tuple(sorted(BYTES, key=BYTES.get)),
    "conv": ("bf16", "fp32"),
    "device": tuple(DEVICE_BY_NAME),
}
PARTS = ("context", "batch", "phase", "experts", "conv", "device", "count")
DEFAULT = "16384,1,decode,mxfp4,bf16,h200,16"


@dataclass(frozen=True)
class CostPoint:
    """What is computed, and on how many of which device."""

    point: Point
    device: Device
    count: int


def split(text: str) -> dict[str, str]:
    """The parts by name, as they stand. ValueError when there are more or fewer."""
    parts = text.split(",")
    if len(parts) != len(PARTS):
        raise ValueError(f"expected {len(PARTS)} parts: {', '.join(PARTS)}")
    return dict(zip(PARTS, parts, strict=True))


def parse(text: str) -> CostPoint:
    """ValueError says which part of the text is not as expected."""
    parts = split(text)
    numbers = {name: _number(name, parts[name]) for name in LIMITS}
    for name, choices in CHOICES.items():
        if parts[name] not in choices:
            raise ValueError(f"{name} is none of {', '.join(choices)}")
    point = Point(numbers["context"], numbers["batch"], parts["phase"], parts["experts"], parts["conv"])
    return CostPoint(point, DEVICE_BY_NAME[parts["device"]], numbers["count"])


def _number(name: str, text: str) -> int:
    limit = LIMITS[name]
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= limit:
        raise ValueError(f"{name} is a whole number from 1 to {limit:,}")
    return int(text)

"""The point of the Cost view as the link writes it: "16384,1,decode,mxfp4,bf16,h200,16"."""

import re
from dataclasses import dataclass

from k3scope.diagrams.cost.roofline import BYTES, DEVICES, Device, Point

LIMITS = {"context": 2**20, "batch": 4096, "count": 1024}
NAMES = {device.name.split()[0].lower(): device for device in DEVICES}
CHOICES = {
    "phase": ("decode", "prefill"),
    "experts": tuple(sorted(BYTES, key=BYTES.get)),
    "conv": ("bf16", "fp32"),
    "device": tuple(NAMES),
}
FIELDS = ("context", "batch", "phase", "experts", "conv", "device", "count")
DEFAULT = "16384,1,decode,mxfp4,bf16,h200,16"


@dataclass(frozen=True)
class At:
    """What is asked for, and of how many of which device."""

    point: Point
    device: Device
    count: int


def read(text: str) -> At:
    """ValueError says which part of the text is not as expected."""
    parts = text.split(",")
    if len(parts) != len(FIELDS):
        raise ValueError(f"expected {len(FIELDS)} parts: {', '.join(FIELDS)}")
    given = dict(zip(FIELDS, parts, strict=True))
    numbers = {name: _number(name, given[name]) for name in LIMITS}
    for name, known in CHOICES.items():
        if given[name] not in known:
            raise ValueError(f"{name} is none of {', '.join(known)}")
    point = Point(numbers["context"], numbers["batch"], given["phase"], given["experts"], given["conv"])
    return At(point, NAMES[given["device"]], numbers["count"])


def _number(name: str, text: str) -> int:
    most = LIMITS[name]
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        raise ValueError(f"{name} is a whole number from 1 to {most:,}")
    return int(text)

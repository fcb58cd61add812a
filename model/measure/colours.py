"""One colour map per meaning, light and dark: the page, the files and a notebook all take them from here."""

import struct
import zlib

import numpy as np

# meaning -> stops, lowest first: (light, dark). The low end is almost the background.
RAMPS = {
    "amount": (("#f1f5fa", "#7fb0ea", "#0b3a86"), ("#1b232e", "#2f74c0", "#d6e8ff")),
    "share": (("#f6f3fb", "#b18fe0", "#4b1a8c"), ("#211c2b", "#7f55c0", "#eadcff")),
    "time": (("#eef6f1", "#6fbf97", "#0c5238"), ("#18251f", "#3a946b", "#d3f5e4")),
    "signed": (
        ("#8a3b05", "#eea45c", "#f7f7f7", "#7fb0ea", "#0b3a86"),
        ("#ffcfa3", "#b8651c", "#1a1f27", "#2f74c0", "#d6e8ff"),
    ),
}
MEANINGS = tuple(RAMPS)
NAN = {False: "#e0007a", True: "#ff5cab"}  # a value that is no number; what is absent has no colour
STEPS = 256


def ramp(meaning: str, dark: bool = False) -> list[str]:
    """256 colours from the lowest value to the highest."""
    return ["#%02x%02x%02x" % tuple(row) for row in _levels(meaning, dark).tolist()]  # noqa: UP031


def shade(
    image: np.ndarray,
    span: tuple[float, float],
    meaning: str = "amount",
    dark: bool = False,
    absent: np.ndarray | None = None,
    log: bool = False,
) -> np.ndarray:
    """Colours [rows, columns, 4] of values between the ends of `span`; absent cells are transparent."""
    low, high = span
    values = np.asarray(image, dtype=np.float64)
    bad = ~np.isfinite(values)
    values = np.where(bad, low, values)
    if log:
        values, low, high = np.log(np.maximum(values, low)), np.log(low), np.log(high)
    at = (values - low) / (high - low) if high > low else np.zeros_like(values)
    index = np.rint(np.clip(at, 0, 1) * (STEPS - 1)).astype(np.intp)
    colours = np.full((*values.shape, 4), 255, dtype=np.uint8)
    colours[..., :3] = _levels(meaning, dark)[index]
    colours[bad, :3] = _rgb(NAN[dark])
    if absent is not None:
        colours[absent] = 0
    return colours


def png(colours: np.ndarray) -> bytes:
    """RGBA [rows, columns, 4] as a PNG file."""
    height, width = colours.shape[:2]
    rows = np.zeros((height, 1 + 4 * width), dtype=np.uint8)  # each line starts with its filter: 0, none
    rows[:, 1:] = colours.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _levels(meaning: str, dark: bool) -> np.ndarray:
    stops = np.array([_rgb(c) for c in RAMPS[meaning][dark]])
    at = np.linspace(0, len(stops) - 1, STEPS)
    mixed = [np.interp(at, range(len(stops)), channel) for channel in stops.T]
    return np.rint(np.stack(mixed, -1)).astype(np.uint8)


def _rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]

"""The rules of compressed-tensors: one class, since its formats share scales, zero points and their shapes.

Source: compressed-tensors 0.20, `compressors/` (names and dtypes) and
`quantization/lifecycle/initialize.py` (shapes).
"""

from dataclasses import dataclass

from k3scope.model.quantization.scheme import Part, Scheme, groups

# format -> name of the packed numbers, numbers in so many bytes, dtype of the scales unless the config says
FLOAT_PACKS = {
    "mxfp4-pack-quantized": ("MXFP4", 2, 1, "U8"),
    "mxfp6-pack-quantized": ("MXFP6", 4, 3, "U8"),
    "nvfp4-pack-quantized": ("NVFP4", 2, 1, "F8_E4M3"),
}
UNPACKED = ("int-quantized", "float-quantized", "naive-quantized", "mxfp8-quantized")
FORMATS = (*FLOAT_PACKS, "pack-quantized", *UNPACKED)


@dataclass(frozen=True)
class Arguments:
    """QuantizationArgs: how weights, or the inputs or outputs of a Linear, are quantised."""

    bits: int = 8
    type: str = "int"
    strategy: str = "tensor"
    symmetric: bool = True
    group: int | None = None
    block: tuple[int, int] | None = None
    dynamic: bool | str = False  # "local": only the global scale is stored
    scale_dtype: str | None = None
    zero_dtype: str | None = None
    reordered: bool = False  # actorder "group" of older files: an index of the groups is stored

    @property
    def dtype(self) -> str:
        """Of numbers that stand one in an element."""
        if self.type == "float":
            return "F8_E4M3"
        return "I8" if self.bits <= 8 else "I16"

    def scale_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Of the scales of weights [rows, width], inputs [width] or outputs [rows]."""
        if self.strategy == "channel":
            return (shape[-2], 1)
        if self.strategy in ("group", "tensor_group"):
            return (*shape[:-1], groups(shape[-1], self.group))
        if self.strategy == "block":
            return (groups(shape[-2], self.block[0]), groups(shape[-1], self.block[1]))
        return (1,)


@dataclass(frozen=True)
class CompressedScheme(Scheme):
    """A QuantizationScheme of compressed-tensors as its compressor writes it."""

    weights: Arguments | None = None
    inputs: Arguments | None = None
    outputs: Arguments | None = None

    @property
    def label(self) -> str:
        if self.format in FLOAT_PACKS:
            return FLOAT_PACKS[self.format][0]
        if self.weights is None:
            return "not quantised"
        if self.format == "mxfp8-quantized":
            return "MXFP8"
        return f"{'FP' if self.weights.type == 'float' else 'INT'}{self.weights.bits}"

    def __str__(self) -> str:
        sized = f" (groups of {self.weights.group})" if self.weights and self.weights.group else ""
        return self.format + sized

    @property
    def runs(self) -> bool:
        w = self.weights
        return (
            self.format == "mxfp4-pack-quantized"
            and (w.group, w.strategy, w.scale_dtype or "U8") == (32, "group", "U8")
            and not (_scales("input", self.inputs, (32,)) or _scales("output", self.outputs, (32,)))
        )

    def parts(self, rows: int, width: int, stored: str) -> tuple[Part, ...]:
        sides = (("weight", self.weights, (rows, width)), ("input", self.inputs, (width,)),
                 ("output", self.outputs, (rows,)))  # fmt: skip
        zeros = self.weights is None
        scales = {p.suffix: p for side in sides for p in _scales(*side, stored, zeros)}
        if self.weights is None:  # nothing is compressed, so no zero point is dropped
            return (Part("weight", stored, (rows, width), "weight"), *scales.values())
        if self.format == "pack-quantized":
            return self._integers(rows, width, scales)
        if self.format in FLOAT_PACKS:
            return self._floats(rows, width, scales)
        if self.format == "mxfp8-quantized":
            _retyped(scales, self.weights.scale_dtype or "U8")
        return (Part("weight", self.weights.dtype, (rows, width), "weight"), *scales.values())

    def _floats(self, rows: int, width: int, scales: dict[str, Part]) -> tuple[Part, ...]:
        name, numbers, size, scale = FLOAT_PACKS[self.format]
        w = self.weights
        if (w.group and width % w.group) or width % numbers:
            raise ValueError(f"a width of {width:,} has no whole groups of {w.group or numbers} for {name}")
        _retyped(scales, w.scale_dtype or scale)
        return (Part("weight_packed", "U8", (rows, width * size // numbers), "packed"), *scales.values())

    def _integers(self, rows: int, width: int, scales: dict[str, Part]) -> tuple[Part, ...]:
        """Bits without gaps in words of 32; zero points likewise, along the rows."""
        w = self.weights
        zero = scales.get("weight_zero_point")
        if zero and w.strategy in ("group", "channel"):
            shape = (groups(rows * w.bits, 32), zero.shape[-1])
            scales["weight_zero_point"] = Part("weight_zero_point", "I32", shape)
        if w.reordered:
            scales["weight_g_idx"] = Part("weight_g_idx", "I32", (width,))
        packed = Part("weight_packed", "I32", (rows, groups(width * w.bits, 32)), "packed")
        return (packed, *scales.values(), Part("weight_shape", "I64", (2,)))


def _retyped(scales: dict[str, Part], dtype: str) -> None:
    scale = scales["weight_scale"]
    scales["weight_scale"] = Part(scale.suffix, dtype, scale.shape)


def _scales(
    base: str, args: Arguments | None, shape: tuple[int, ...], stored: str = "BF16", zeros: bool = False
) -> list[Part]:
    """Scales and zero points that are stored for weights, inputs or outputs; dynamic ones are not.

    Symmetric numbers have a zero point only when `zeros` says so.
    """
    if args is None or args.dynamic is True:
        return []
    parts = []
    if args.strategy == "tensor_group":
        parts.append(Part(f"{base}_global_scale", "F32", (1,)))
    if args.dynamic == "local":
        return parts
    scale = args.scale_shape(shape)
    parts.append(Part(f"{base}_scale", stored, scale))
    if zeros or not args.symmetric:
        parts.append(Part(f"{base}_zero_point", args.zero_dtype or args.dtype, scale))
    return parts

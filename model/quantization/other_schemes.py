"""The rules of other writers: blocks of FP8 as DeepSeek stores them, Model Optimizer, GPTQ and AWQ."""

from dataclasses import dataclass

from k3scope.model.quantization.scheme import Part, Scheme, groups


@dataclass(frozen=True)
class Fp8Blocks(Scheme):
    """One byte a number and a scale for each block (DeepSeek-V3, `FineGrainedFP8Config` of transformers)."""

    block: tuple[int, int] = (128, 128)
    scale_dtype: str = "F32"
    static: bool = False  # a scale of the inputs is stored too

    label = "FP8"

    def parts(self, rows: int, width: int, stored: str) -> tuple[Part, ...]:
        scale = (groups(rows, self.block[0]), groups(width, self.block[1]))
        parts = (
            Part("weight", "F8_E4M3", (rows, width), "weight"),
            Part("weight_scale_inv", self.scale_dtype, scale),
        )
        return (*parts, Part("activation_scale", "F32", ())) if self.static else parts


# quant_algo of Model Optimizer -> short name
MODELOPT = {"NVFP4": "NVFP4", "FP8": "FP8", "FP8_PB_WO": "FP8", "MXFP8": "MXFP8"}


@dataclass(frozen=True)
class ModelOpt(Scheme):
    """What NVIDIA Model Optimizer exports for a `quant_algo` (its `examples/kimi/kimi_k3` for K3's own)."""

    algo: str = "NVFP4"
    group: int = 16

    @property
    def label(self) -> str:
        return MODELOPT[self.algo]

    def __str__(self) -> str:
        return f"{self.format} {self.algo}"

    def parts(self, rows: int, width: int, stored: str) -> tuple[Part, ...]:
        weight = Part("weight", "F8_E4M3", (rows, width), "weight")
        scalars = tuple(Part(name, "F32", ()) for name in ("weight_scale", "input_scale"))
        if self.algo == "FP8":
            return (weight, *scalars)
        if self.algo == "FP8_PB_WO":
            return (weight, Part("weight_scale", "F32", (groups(rows, 128), 1, groups(width, 128), 1)))
        if width % self.group:
            raise ValueError(f"a width of {width:,} has no whole groups of {self.group} for {self.label}")
        scale = (rows, width // self.group)
        if self.algo == "MXFP8":
            return (weight, Part("weight_scale", "U8", scale))
        return (
            Part("weight", "U8", (rows, width // 2), "packed"),
            Part("weight_scale", "F8_E4M3", scale),
            Part("weight_scale_2", "F32", ()),
            scalars[1],
        )


@dataclass(frozen=True)
class Transposed(Scheme):
    """GPTQ and AWQ (GEMM): int32 words [inputs, outputs], packed along the inputs or the outputs."""

    bits: int = 4
    group: int = 128  # -1: one for all inputs
    scale_dtype: str = "F16"

    @property
    def label(self) -> str:
        return f"INT{self.bits}"

    def parts(self, rows: int, width: int, stored: str) -> tuple[Part, ...]:
        count = 1 if self.group == -1 else groups(width, self.group)
        packed_rows, packed_width = (size * self.bits // 32 for size in (rows, width))
        along = width if self.format == "gptq" else rows
        if (along * self.bits) % 32 or (rows * self.bits) % 32:
            raise ValueError(f"{self.bits}-bit numbers of [{rows:,}, {width:,}] do not fill words of 32 bits")
        shape = (packed_width, rows) if self.format == "gptq" else (width, packed_rows)
        parts = (
            Part("qweight", "I32", shape, "packed"),
            Part("qzeros", "I32", (count, packed_rows)),
            Part("scales", self.scale_dtype, (count, rows)),
        )
        return (*parts, Part("g_idx", "I32", (width,))) if self.format == "gptq" else parts

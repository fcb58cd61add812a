"""Compile every Triton kernel for GPUs that are not here, and print what each needs as JSON.

A process of its own: the interpreter's switch must be off when the kernels are imported. `aot.py 0/2` does
every second kernel, `aot.py 0/1 sm_90` one architecture.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

assert os.environ.get("TRITON_INTERPRET", "0") != "1"

import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from k3scope.model.kernels import kda_triton_kernels as kda  # noqa: E402
from k3scope.model.kernels import mix_conv_triton_kernels as small  # noqa: E402
from k3scope.model.kernels import moe_triton_kernels as moe  # noqa: E402
from k3scope.model.kernels.triton_setup import configuration  # noqa: E402

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "sm_100": GPUTarget("cuda", 100, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"

# matrix instructions of each generation, in the machine code
MATRIX = r"\b(?:HMMA|HGMMA|UTC\w*MMA|v_mfma_\w+)"
WIDE = r"\b(?:LDG\S*\.128|LDGSTS\S*\.128|UBLKCP|UTMALDG)\b|\b(?:global|buffer)_load_(?:dwordx4|b128)\b"


def named(kind: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), kind)


def jobs() -> dict[str, tuple]:
    """Name -> (kernel, types of the arguments, constants, options), at K3's sizes."""
    return {**kda_jobs(), **moe_jobs(), **small_jobs()}


def kda_jobs() -> dict[str, tuple]:
    sizes = {"H": 96, "K": 128, "V": 128, "BK": 128}
    exact = named("*fp32", "decay write kept spread initial final state") | named(
        "*i64", "starts stops first"
    )
    types = named("*bf16", "q k v from_state values readers keys attention out") | exact | {"T": "i32"}
    scan, scan_options = configuration("kda_scan")
    tile, options = configuration("kda_loop")
    result = {
        "kda_within bf16": (
            kda.kda_within, types, {**sizes, "BV": 128, "PREC": "tf32"}, configuration("kda_within")[1],
        ),
        "kda_scan bf16": (kda.kda_scan, types, {**sizes, "BV": scan, "PREC": "tf32"}, scan_options),
    }  # fmt: skip
    for kind in ("bf16", "fp32"):
        kinds = types | named(f"*{kind}", "q k v out")
        result[f"kda_loop {kind}"] = kda.kda_loop, kinds, {**sizes, "BV": tile, "bounds": None}, options
    return result


def moe_jobs() -> dict[str, tuple]:
    result = {}
    plan = named("*i64", "slots experts starts ends")
    for shape in ("experts_few", "experts_many"):
        for kind, precision in (("bf16", "ieee"), ("mxfp4", "ieee"), ("fp32", "exact")):
            tile, options = configuration(f"{shape} {kind}")
            sizes = {"L": 3584, "F": 3072, **tile, "PREC": precision}
            values = "bf16" if kind == "mxfp4" else kind
            types = plan | named(f"*{values}", "x hidden out w1 w3 w2")
            if kind == "mxfp4":
                types |= named("*u8", "w1 w3 w2 s1 s3 s2")
            else:
                sizes |= {"s1": None, "s3": None, "s2": None}
            caps = {"GATE_CAP": 4.0, "UP_CAP": 25.0, "TOP_K": 16}
            up = {n: v for n, v in {**sizes, **caps}.items() if n != "s2"}
            down = {n: v for n, v in sizes.items() if n not in ("s1", "s3")}
            name = shape.replace("experts", "")
            result[f"experts_up{name} {kind}"] = moe.experts_up, types, up, options
            result[f"experts_down{name} {kind}"] = moe.experts_down, types, down, options
    return result


def small_jobs() -> dict[str, tuple]:
    types = named("*bf16", "routed out values x") | named("*i64", "index") | named("fp32", "eps routed_scale")
    types |= named("*fp32", "weight logits bias scores margin query probs") | {"T": "i32"}
    route = {"E": 896, "TOP_K": 16, "BE": 1024, "BT": 32}
    tile, mix_options = configuration("mix")
    mix = {"D": 7168, "N": 9, "BN": 16, "BD": tile}
    rows, conv_options = configuration("short_conv")
    conv = {"H": 96, "K": 128, "TAPS": 4, "NORM": True, "BT": rows, "BK": 128}
    columns, combine_options = configuration("combine")
    combine = {"L": 3584, "TOP_K": 16, "BL": columns}
    return {
        "route fp32": (moe.route, types, route, configuration("route")[1]),
        "combine bf16": (moe.combine, types, combine, combine_options),
        "mix bf16": (small.mix, types, mix, mix_options),
        "short_conv bf16": (small.short_conv, types, conv, conv_options),
    }


def compile_one(kernel, types, constants, options, target) -> dict[str, int]:
    if constants.get("PREC") == "exact":
        constants = {**constants, "PREC": "ieee" if target.backend == "hip" else "tf32x3"}
    signature = {name: "constexpr" if name in constants else types[name] for name in kernel.arg_names}
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind[0] == "*"}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    built = triton.compile(source, target=target, options=options)
    figures = _amd(built.asm["amdgcn"]) if target.backend == "hip" else _nvidia(built.asm["cubin"])
    return {**figures, "shared": built.metadata.shared}


def _nvidia(cubin: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage, code = _dump("--dump-resource-usage", file.name), _dump("--dump-sass", file.name)
    result = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", usage))
    return {
        "registers": int(result["REG"]),
        "spilled": int(result["STACK"]) + int(result["LOCAL"]),
        "matrix": len(re.findall(MATRIX, code)),
        "wide_loads": len(re.findall(WIDE, code)),
    }


def _dump(flag: str, file: str) -> str:
    return subprocess.run([CUOBJDUMP, flag, file], check=True, capture_output=True, text=True).stdout


def _amd(code: str) -> dict[str, int]:
    field = lambda name: int(re.search(rf"\.{name}:\s*(\d+)", code)[1])  # noqa: E731
    return {
        "registers": field("vgpr_count"),
        "spilled": field("vgpr_spill_count") + field("sgpr_spill_count"),
        "matrix": len(re.findall(MATRIX, code)),
        "wide_loads": len(re.findall(WIDE, code)),
    }


def main(share: str = "0/1", *names: str) -> None:
    part, parts = map(int, share.split("/"))
    result = {"triton": triton.__version__}
    for name, job in list(jobs().items())[part::parts]:
        result[name] = {arch: compile_one(*job, TARGETS[arch]) for arch in names or TARGETS}
    print("{" + ",\n".join(f"{json.dumps(name)}: {_lines(value)}" for name, value in result.items()) + "}")


def _lines(value) -> str:
    """An architecture a line: a regression is a short diff."""
    if isinstance(value, str):
        return json.dumps(value)
    return "{\n" + ",\n".join(f" {json.dumps(arch)}: {json.dumps(f)}" for arch, f in value.items()) + "}"


if __name__ == "__main__":
    main(*sys.argv[1:])

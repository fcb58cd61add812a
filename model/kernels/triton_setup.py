"""What all Triton kernels share on the host: whether they can run, block sizes, fixed configurations."""

import os

import torch
import triton

# set before the kernels are imported: Triton reads it when it decorates them
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"

# (tile, options) per kernel: the largest tile that no architecture spills (tests/model/kernels/compiled.json)
# No autotuning: the first call does not stall, and results repeat from run to run.
CONFIGURATIONS = {
    "kda_within": (None, {"num_warps": 4, "num_stages": 1}),
    "kda_scan": (32, {"num_warps": 4, "num_stages": 3}),
    "kda_loop": (64, {"num_warps": 4, "num_stages": 1}),
    # few rows an expert: reading weights is all the work; many: the products are
    "experts_few bf16": ({"BM": 16, "BN": 64, "BK": 128}, {"num_warps": 4, "num_stages": 4}),
    "experts_few mxfp4": ({"BM": 16, "BN": 64, "BK": 128}, {"num_warps": 4, "num_stages": 4}),
    "experts_few fp32": ({"BM": 16, "BN": 64, "BK": 32}, {"num_warps": 4, "num_stages": 3}),
    "experts_many bf16": ({"BM": 64, "BN": 64, "BK": 64}, {"num_warps": 4, "num_stages": 3}),
    "experts_many mxfp4": ({"BM": 64, "BN": 64, "BK": 64}, {"num_warps": 4, "num_stages": 2}),
    "experts_many fp32": ({"BM": 64, "BN": 64, "BK": 32}, {"num_warps": 8, "num_stages": 3}),
    "combine": (1024, {"num_warps": 4, "num_stages": 1}),
    "route": (None, {"num_warps": 4, "num_stages": 1}),
    "mix": (1024, {"num_warps": 4, "num_stages": 1}),
    "short_conv": (16, {"num_warps": 4, "num_stages": 1}),
}


def configuration(kernel: str) -> tuple[int | dict | None, dict]:
    return CONFIGURATIONS[kernel]


def block(size: int) -> int:
    """Power of two that covers size; a matrix unit wants at least 16."""
    return max(16, triton.next_power_of_2(size))


def exact_precision() -> str:
    """How matrix units multiply float32 without losing digits: three tf32 products, where there is tf32."""
    return "ieee" if INTERPRETED or torch.version.hip else "tf32x3"

"""Our CPU kernels beside a naive loop and what else is installed: one core, float32, process CPU time.

python tests/bench/cpu.py [--quick] [--out FILE.json]
"""

import argparse
from functools import partial
from pathlib import Path

import peers
import torch
from common import RESULTS, cpu_times, peak_megabytes, print_rows, write
from torch.nn.functional import normalize

from model import load, trace
from model.kernels import experts_cpp, experts_torch, kda_cpp, kda_torch, native, reference

# heads, head_dim, tokens
QUICK_KDA = [(4, 32, 2048), (8, 64, 512), (16, 128, 512), (96, 128, 128), (96, 128, 1)]
FULL_KDA = [(h, d, t) for h, d in ((4, 32), (8, 64), (16, 128), (96, 128)) for t in (1, 128, 2048, 8192)]
# experts, top_k, latent, width, tokens
QUICK_MOE = [(16, 4, 64, 64, 1), (16, 4, 64, 64, 128), (896, 16, 128, 128, 1), (896, 16, 128, 128, 128)]
FULL_MOE = [(*size[:4], n) for size in (QUICK_MOE[0], QUICK_MOE[2]) for n in (1, 16, 128, 2048)]
LOOPS = {"naive", "lean loop", "fla naive_recurrent_kda", "transformers recurrent"}
LONGEST_LOOP = 250e6  # state elements a loop visits; beyond that it would take minutes


def kda_rows(heads: int, dim: int, tokens: int, seconds: float) -> list[dict]:
    args = kda_inputs(heads, dim, tokens)
    calls = {"naive": peers.naive_kda, "lean loop": peers.lean_kda, **peers.installed_kda()}
    calls["torch"] = kda_torch.kda
    if native.library("kda"):
        calls["cpp"] = kda_cpp.kda
    if tokens * heads * dim * dim > LONGEST_LOOP:
        calls = {name: call for name, call in calls.items() if name not in LOOPS}
    exact = reference.kda(*(t.double() for t in args))[0] if "naive" in calls else None
    return rows(f"kda H{heads} d{dim} T{tokens}", calls, args, exact, seconds)


def kda_inputs(heads: int, dim: int, tokens: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(1, tokens, heads, *shape, generator=generator)  # noqa: E731
    q, k = normalize(make(dim), dim=-1) * dim**-0.5, normalize(make(dim), dim=-1)
    return [q, k, make(dim), -5 * (make(dim) - 4).sigmoid(), make().sigmoid()]


def moe_rows(experts: int, top_k: int, latent: int, width: int, tokens: int, seconds: float) -> list[dict]:
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    index = torch.rand(tokens, experts, generator=generator).topk(top_k, -1).indices
    w1, w3 = (make(experts, width, latent) / latent**0.5 for _ in range(2))
    w2 = make(experts, latent, width) / width**0.5
    args = make(tokens, latent), index, w1, w3, w2, 4.0, 25.0
    calls = {"naive": peers.every_expert, "experts hit": reference.experts, "grouped_mm": peers.grouped_mm}
    if tokens <= 128:
        calls["batched_mm"] = peers.batched_mm
    calls["torch"] = experts_torch.experts
    if native.library("experts"):
        calls["cpp"] = experts_cpp.experts
    wide = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in args]
    return rows(f"moe E{experts} n{tokens}", calls, args, reference.experts(*wide), seconds)


def capture_rows(seconds: float) -> list[dict]:
    """What it costs to keep every inner tensor of a forward."""
    model, ids = load("k3-random"), torch.arange(128)[None]
    calls = {"naive": lambda: model(ids), "captured": lambda: trace(model, ids)}
    return rows("capture k3-random T128", calls, (), None, seconds)


def rows(case: str, calls: dict, args, exact, seconds: float) -> list[dict]:
    bound = {name: partial(call, *args) for name, call in calls.items()}
    times = cpu_times(bound, seconds)
    found = []
    for name, call in bound.items():
        row = {"case": case, "impl": name, "cpu_ms": times[name], "peak_mb": peak_megabytes(call)}
        if "naive" in times:
            row["ratio_to_naive"] = times["naive"] / times[name]
        if exact is not None:
            out = call()
            out = out[0] if isinstance(out, tuple) else out
            row["rel_error"] = ((out - exact).abs().max() / exact.abs().max()).item()
        found.append(row)
    print_rows(found)
    print(flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the budget's cases only, in under 50 s")
    parser.add_argument("--out", type=Path, default=RESULTS / "cpu.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found, seconds = [], 1.5 if options.quick else 6.0
    with torch.inference_mode():
        for size in QUICK_KDA if options.quick else FULL_KDA:
            found += kda_rows(*size, seconds)
            write(options.out, found)
        for size in QUICK_MOE if options.quick else FULL_MOE:
            found += moe_rows(*size, seconds)
            write(options.out, found)
        found += capture_rows(seconds)
    write(options.out, found)


if __name__ == "__main__":
    main()

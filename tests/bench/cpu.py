"""Our CPU kernels beside a naive loop and what else is installed: one core, float32, process CPU time.

python tests/bench/cpu.py [--quick] [--out FILE.json]
"""

import argparse
import os
import statistics
import time
from functools import partial
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # before the libraries start

import peers
import peers_moe
import torch
from common import RESULTS, cpu_times, look, print_rows, write
from torch.nn.functional import normalize

from k3scope.model import load
from k3scope.model.kernels import experts_cpp, experts_torch, kda_cpp, kda_torch, native, reference
from k3scope.model.measure.observe import observe, points_for
from k3scope.model.tracing import trace

# heads, head_dim, tokens
QUICK_KDA = [(4, 32, 2048), (8, 64, 512), (16, 128, 512), (96, 128, 128), (96, 128, 1)]
SIZES = ((4, 32), (8, 64), (16, 128), (96, 128))
FULL_KDA = [*QUICK_KDA[1:3], *((*size, tokens) for size in SIZES for tokens in (1, 128, 2048, 8192))]
# experts, top_k, latent, width, tokens
QUICK_MOE = [(16, 4, 64, 64, 1), (16, 4, 64, 64, 128), (896, 16, 128, 128, 1), (896, 16, 128, 128, 128)]
FULL_MOE = [(*size[:4], n) for size in (QUICK_MOE[0], QUICK_MOE[2]) for n in (1, 16, 128, 2048)]
LONGEST_LOOP = 3.3e9  # state elements that the float64 recurrence visits; beyond that, float64 chunks
ONCE = {True: 800, False: 6000}  # milliseconds beyond which one call has to do, quick or not
SLOW = "transformers chunk"  # far slower than the rest: not in a quick run
PATIENCE = 60  # seconds: what would take longer is left out


class Bench:
    """Collects rows and writes them as they come."""

    def __init__(self, quick: bool, out: Path):
        self.quick, self.out, self.rows = quick, out, []
        self.base, self.naive = peers.base()
        self.speed: dict[tuple, float] = {}  # CPU seconds a token, of implementation and size
        self.seconds = 1.0 if quick else 3.0

    def kda(self, heads: int, dim: int, tokens: int) -> None:
        args = kda_inputs(heads, dim, tokens)
        ours = {"torch": kda_torch.kda} | ({"cpp": kda_cpp.kda} if native.library("kda") else {})
        makers = {"naive": self.naive, "lean loop": peers.lean_loop, **peers.installed()}
        makers |= {name: partial(partial, call) for name, call in ours.items()}
        short = tokens * heads * dim * dim < LONGEST_LOOP
        wide = (reference.kda if short else kda_torch.kda)(*(t.double() for t in args))
        self.case(f"kda H{heads} d{dim}", tokens, makers, args, wide)

    def moe(self, experts: int, top_k: int, latent: int, width: int, tokens: int) -> None:
        args = moe_inputs(experts, top_k, latent, width, tokens)
        makers = {"naive": peers_moe.every_expert, "grouped_mm": peers_moe.grouped_mm}
        if tokens <= 128:
            makers["batched_mm"] = peers_moe.batched_mm
        makers |= {n: m for n, m in peers_moe.installed().items() if tokens <= 128 or "batched" not in n}
        ours = {"experts hit": reference.experts, "torch": experts_torch.experts}
        ours |= {"cpp": experts_cpp.experts} if native.library("experts") else {}
        makers |= {name: partial(routed, call) for name, call in ours.items()}
        wide = [t.double() if isinstance(t, torch.Tensor) and t.is_floating_point() else t for t in args]
        self.case(f"moe E{experts}", tokens, makers, args, routed(reference.experts, *wide)())

    def case(self, size: str, tokens: int, makers: dict, args, exact) -> None:
        """First every call against `exact`, then their times in turns."""
        name = f"{size} {'n' if size.startswith('moe') else 'T'}{tokens}"
        calls, looks = {}, {}
        for impl, make in makers.items():
            if self.speed.get((impl, size), 0) * tokens > PATIENCE or (self.quick and impl == SLOW):
                continue
            try:
                call = make(*args)
                looks[impl] = look(call, exact)
            except Exception as error:  # a peer may refuse a size
                print(f"{name}: {impl} left out: {error}")
                continue
            self.speed[impl, size] = looks[impl].cpu_ms / 1e3 / tokens
            calls[impl] = call
        again = {impl: call for impl, call in calls.items() if looks[impl].cpu_ms < ONCE[self.quick]}
        times = {impl: min(ms) for impl, ms in cpu_times(again, self.seconds).items()}
        self.add(name, {impl: (times.get(impl, looks[impl].cpu_ms), looks[impl]) for impl in calls})

    def add(self, case: str, found: dict) -> None:
        rows = []
        for impl, (cpu_ms, seen) in found.items():
            row = {"case": case, "impl": impl, "cpu_ms": round(cpu_ms, 4), "peak_mb": seen.peak_mb}
            if "naive" in found:
                row["ratio_to_naive"] = round(found["naive"][0] / cpu_ms, 3)
            rows.append(row if seen.rel_error is None else row | {"rel_error": seen.rel_error})
        self.keep(rows)

    def keep(self, rows: list[dict]) -> None:
        self.rows += rows
        print_rows(rows)
        print(flush=True)
        write(self.out, self.rows, base=self.base)

    def capture(self, tokens: int) -> None:
        """What it costs to keep inner tensors of a forward: the median over rounds, each against its own."""
        model, ids = load("k3-tiny"), (torch.arange(tokens) * 7 % 2000)[None]
        points = points_for(model.config)
        calls = {
            "naive": lambda: model(ids),
            "default points": lambda: trace(model, ids, points),
            "every point": lambda: trace(model, ids),
            "with statistics of every point": lambda: observe(model, ids),
        }
        times = cpu_times(calls, 3 * self.seconds, rounds=20)
        rows = []
        for impl, ms in times.items():
            over = statistics.median(m / base for m, base in zip(ms, times["naive"], strict=False)) - 1
            row = {"case": f"capture k3-tiny T{tokens}", "impl": impl, "cpu_ms": round(min(ms), 3)}
            row |= {"peak_mb": look(calls[impl]).peak_mb, "ratio_to_naive": round(1 / (1 + over), 4)}
            rows.append(row | {"overhead": round(over, 4)})
        self.keep(rows)


def routed(experts, x, index, weight, *rest):
    """One of our implementations of the experts, with the weighted sum that follows."""
    return lambda: reference.combine(experts(x, index, *rest), weight)


def kda_inputs(heads: int, dim: int, tokens: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(1, tokens, heads, *shape, generator=generator)  # noqa: E731
    q, k = normalize(make(dim), dim=-1) * dim**-0.5, normalize(make(dim), dim=-1)
    return [q, k, make(dim), -5 * (make(dim) - 4).sigmoid(), make().sigmoid()]


def moe_inputs(experts: int, top_k: int, latent: int, width: int, tokens: int) -> list:
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(*shape, generator=generator)  # noqa: E731
    weight, index = torch.rand(tokens, experts, generator=generator).topk(top_k, -1)
    w1, w3 = (make(experts, width, latent) / latent**0.5 for _ in range(2))
    w2 = make(experts, latent, width) / width**0.5
    return [make(tokens, latent), index, weight / weight.sum(-1, keepdim=True), w1, w3, w2, 4.0, 25.0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the budget's cases only, in under 50 s")
    parser.add_argument("--out", type=Path, default=RESULTS / "cpu.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    start, bench = time.perf_counter(), Bench(options.quick, options.out)
    with torch.inference_mode():
        for size in QUICK_KDA if options.quick else FULL_KDA:
            bench.kda(*size)
        for size in QUICK_MOE if options.quick else FULL_MOE:
            bench.moe(*size)
        for tokens in (200,) if options.quick else (200, 2048):
            bench.capture(tokens)
    print(f"ratios are to: {bench.base}; {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

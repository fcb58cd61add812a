"""Our Triton kernels on a GPU at K3's sizes, beside torch and fla, with the share of the computed floor.

python tests/bench/gpu.py [--quick] [--out FILE.json]      every row is written as it comes; under 8 minutes
python tests/bench/gpu.py --cpu --out FILE.json            every line on tiny sizes in Triton's interpreter
"""

import argparse
import os
import sys
import time
from pathlib import Path

if "--cpu" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are imported
    os.environ["K3SCOPE_KERNELS"] = "triton"

import torch
from common import RESULTS, print_rows, write
from torch.nn import functional as F

from k3scope.model.kernels import kda_torch, kda_triton, mxfp4, ops, reference

TINY = "--cpu" in sys.argv
DEVICE = "cpu" if TINY else "cuda"
HEADS, DIM = (2, 16) if TINY else (96, 128)
EXPERTS, TOP_K, LATENT, WIDTH = (8, 2, 64, 64) if TINY else (896, 16, 3584, 3072)
STEPS = (33,) if TINY else (4096, 8192, 16384, 65536)
BATCHES = (1, 2) if TINY else (1, 8, 64)
TOKENS = (1, 5) if TINY else (1, 16, 64, 256, 1024, 4096, 8192)


def milliseconds(call) -> float:
    """Median of the runs that fit into a fifth of a second, after warming up."""
    if TINY:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3
    from triton.testing import do_bench

    return do_bench(call, warmup=50, rep=200, return_mode="median")


def ceilings() -> tuple[float, float]:
    """Bytes a millisecond of a copy, and operations a millisecond of a bfloat16 product."""
    size, side = (2**20, 64) if TINY else (2**32, 8192)
    source = torch.empty(size, dtype=torch.uint8, device=DEVICE)
    target, a = torch.empty_like(source), torch.randn(side, side, device=DEVICE, dtype=torch.bfloat16)
    return 2 * size / milliseconds(lambda: target.copy_(source)), 2 * side**3 / milliseconds(lambda: a @ a)


def kda_inputs(batch: int, steps: int) -> list[torch.Tensor]:
    make = lambda *shape: torch.randn(batch, steps, HEADS, *shape, device=DEVICE)  # noqa: E731
    q, k = (F.normalize(make(DIM), dim=-1).bfloat16() for _ in range(2))
    return [q * DIM**-0.5, k, make(DIM).bfloat16(), -5 * (make(DIM) - 4).sigmoid(), make().sigmoid()]


def correctness(bench) -> None:
    for steps in (1, 15, 16, 17, 33) if TINY else (1, 15, 16, 17, 63, 64, 65, 1000):
        args = kda_inputs(1, steps)
        exact, _ = reference.kda(*(t.double() for t in args))
        out, again = ops.kda(*args)[0], ops.kda(*args)[0]
        wrong = ((out.double() - exact).abs().max() / exact.abs().max()).item()
        bench.add(f"right kda T{steps}", "triton", rel_error=wrong, repeats=torch.equal(out, again))
        assert wrong < 3e-2, f"T {steps}: relative error {wrong:.1e}"


def prefill(bench) -> None:
    for steps in STEPS:
        args = kda_inputs(1, steps)
        moved = sum(t.numel() * t.element_size() for t in (*args, args[2]))
        work = 6 * steps * HEADS * DIM * DIM
        floor = max(moved / bench.bandwidth, work / bench.compute)
        bench.time(f"kda T{steps}", "triton", lambda args=args: ops.kda(*args), floor)
        if steps <= 8192:
            bench.time(f"kda T{steps}", "torch", lambda args=args: kda_torch.kda(*args), floor)
        for name, peer in fla_kda().items():
            bench.time(f"kda T{steps}", name, lambda args=args, peer=peer: peer(*args), floor)
        if steps <= 16384:
            q, k, v = (t.transpose(1, 2) for t in args[:3])
            call = lambda q=q, k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
            bench.time(f"kda T{steps}", "softmax attention", call, None)


def fla_kda() -> dict:
    try:
        from fla.ops.kda import chunk_kda
    except Exception:  # not installed, or not importable here
        return {}
    more = {"scale": 1.0, "output_final_state": True, "safe_gate": True, "lower_bound": -5.0}
    return {"fla chunk_kda": lambda *args: chunk_kda(*args, **more)}


def decode(bench) -> None:
    for batch in BATCHES:
        args, state = kda_inputs(batch, 1), torch.zeros(batch, HEADS, DIM, DIM, device=DEVICE)
        floor = 2 * state.numel() * 4 / bench.bandwidth
        call = lambda args=args, state=state: kda_triton.loop(*args, state)  # noqa: E731
        bench.time(f"decode B{batch}", "triton", call, floor)
        if not TINY:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                call()
            bench.time(f"decode B{batch}", "triton, in a graph", graph.replay, floor)
        bench.time(f"decode B{batch}", "torch", lambda a=args, s=state: kda_torch.kda(*a, s), floor)


def moe(bench, experts: int) -> None:
    make = lambda *shape: torch.empty(*shape, device=DEVICE, dtype=torch.bfloat16).normal_(std=0.02)  # noqa: E731
    w1, w3, w2 = make(experts, WIDTH, LATENT), make(experts, WIDTH, LATENT), make(experts, LATENT, WIDTH)
    for tokens in TOKENS:
        x, index = make(tokens, LATENT), torch.rand(tokens, experts, device=DEVICE).topk(TOP_K, -1).indices
        hit, work = index.unique().numel(), 6 * tokens * TOP_K * LATENT * WIDTH
        floor = max(3 * hit * LATENT * WIDTH * 2 / bench.bandwidth, work / bench.compute)
        case = f"moe E{experts} n{tokens}"
        args = x, index, w1, w3, w2, 4.0, 25.0
        bench.time(case, "triton", lambda args=args: ops.experts(*args), floor)
        if not TINY:
            from peers_moe import grouped_mm

            weight = torch.full(index.shape, 1 / TOP_K, device=DEVICE)
            bench.time(case, "grouped_mm", grouped_mm(x, index, weight, *args[2:]), floor)
    few = slice(0, min(experts, 32))
    packed, scales = zip(*(mxfp4.encode(w[few]) for w in (w1, w3, w2)), strict=True)
    x, index = make(TOKENS[1], LATENT), torch.rand(TOKENS[1], few.stop, device=DEVICE).topk(TOP_K, -1).indices
    floor = 3 * index.unique().numel() * LATENT * WIDTH * 17 / 32 / bench.bandwidth
    call = lambda: ops.experts_mxfp4(x, index, packed, scales, 4.0, 25.0)  # noqa: E731
    bench.time(f"moe E{few.stop} n{TOKENS[1]} MXFP4", "triton", call, floor)


def router(bench) -> None:
    logits, bias = torch.randn(TOKENS[-1], EXPERTS, device=DEVICE), torch.zeros(EXPERTS, device=DEVICE)
    for name, call in (("triton", ops.route), ("torch", reference.route)):
        bench.time(f"router n{TOKENS[-1]}", name, lambda call=call: call(logits, bias, TOP_K, 1.0), None)


class Bench:
    """Rows so far, written after each; a row that fails keeps its message."""

    def __init__(self, out: Path):
        self.out, self.rows = out, []
        self.bandwidth, self.compute = ceilings()
        self.add("ceiling copy", "torch", GB_s=self.bandwidth / 1e6)
        self.add("ceiling bf16 product", "torch", TFLOP_s=self.compute / 1e9)

    def add(self, case: str, impl: str, **figures) -> None:
        self.rows.append({"case": case, "impl": impl, **figures})
        write(self.out, self.rows)

    def time(self, case: str, impl: str, call, floor: float | None) -> None:
        try:
            took = milliseconds(call)
        except Exception as error:  # a peer may refuse a size; our own rows are asserted in tests
            self.add(case, impl, failed=str(error)[:200])
            return
        self.add(
            case, impl, ms=took, **({} if floor is None else {"floor_ms": floor, "of_floor": floor / took})
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--cpu", action="store_true", help="tiny sizes in the interpreter: does every line run?"
    )
    parser.add_argument("--quick", action="store_true", help="224 experts instead of 896")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json")
    options = parser.parse_args()
    if not TINY and not torch.cuda.is_available():
        parser.exit(message="no GPU on this machine; --cpu runs every line on tiny sizes\n")
    with torch.no_grad():
        bench = Bench(options.out)
        correctness(bench)
        prefill(bench)
        decode(bench)
        moe(bench, EXPERTS if TINY or not options.quick else 224)
        router(bench)
    print_rows(bench.rows)


if __name__ == "__main__":
    main()

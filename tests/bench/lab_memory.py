"""Memory and time of a pass of 2,048 tokens: every point kept, and only what the views read."""

import resource
import subprocess
import sys
import time

import torch

from k3scope.model import load
from k3scope.model.measure.observe import observe
from k3scope.model.measure.readings import readings
from k3scope.model.tracing import trace

TOKENS = 2048


def measure(way: str) -> str:
    model, ids = load("k3-random"), torch.arange(TOKENS) % 256
    before, start = peak_bytes(), time.perf_counter()
    if way == "every point":
        run = trace(model, ids)
        readings(run)
    else:
        seen = observe(model, ids)
        run = seen.trace
        seen.readings()
    seconds = time.perf_counter() - start
    held = {x.data_ptr(): x.nbytes for x in run.values.values() if isinstance(x, torch.Tensor)}
    mib = lambda n: f"{n / 2**20:6.0f} MiB"  # noqa: E731
    peak = mib(peak_bytes() - before)
    return f"{way:16} kept {mib(sum(held.values()))}   peak {peak}   {seconds:5.1f} s"


def peak_bytes() -> int:
    """Largest size of this process so far (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
    else:  # a process each: a peak does not go down again
        for way in ("every point", "what views read"):
            subprocess.run([sys.executable, __file__, way], check=True)

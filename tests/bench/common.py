"""What the benchmarks share: time and memory of calls side by side, facts of the machine, results files."""

import ctypes
import json
import os
import platform
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


def cpu_times(calls: dict[str, Callable], seconds: float, rounds: int = 40) -> dict[str, float]:
    """Least process CPU milliseconds of each call. They take turns: a busy machine is unfair to all."""
    best = dict.fromkeys(calls, float("inf"))
    end = time.perf_counter() + seconds
    for done in range(rounds):
        for name, call in calls.items():
            call()  # what its neighbour left in the caches is not its own doing
            start = time.process_time()
            call()
            best[name] = min(best[name], (time.process_time() - start) * 1e3)
        if time.perf_counter() > end and done >= 1:
            break
    return best


def peak_megabytes(call: Callable) -> float | None:
    """Memory a call adds at its peak, measured in a forked copy of the process; None where that cannot be."""
    if platform.system() != "Linux":
        return None
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return float(text) if text else None
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts here
        before = _status("VmRSS")
        call()
        os.write(writer, f"{(_status('VmHWM') - before) / 1024:.3f}".encode())
    finally:
        os._exit(0)


def _status(key: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1])  # kB


def machine() -> dict[str, str | int]:
    """What a number depends on besides the code."""
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count() or 1,
        "load": round(os.getloadavg()[0], 1),  # other work on the machine widens every number
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "date": date.today().isoformat(),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    wide = any("avx512f" in line for line in lines)
    return (names[0] if names else platform.processor()) + (", AVX-512" if wide else "")


def write(path: Path, rows: list[dict]) -> None:
    """One JSON object: facts of the machine and the rows so far; complete at any moment."""
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    scratch.replace(path)


def print_rows(rows: list[dict]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([_text(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _text(value) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

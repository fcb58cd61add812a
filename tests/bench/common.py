"""What the benchmarks share: time and memory of calls side by side, facts of the machine, results files."""

import ctypes
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Look:
    """One call, watched: process CPU milliseconds, megabytes added at its peak, and how far it is off."""

    cpu_ms: float
    peak_mb: float | None
    rel_error: float | None


def cpu_times(calls: dict[str, Callable], seconds: float, rounds: int = 40) -> dict[str, list[float]]:
    """Process CPU milliseconds of each call, round by round: in turns, so that other work is unfair to all.

    A call that has used up its share of the seconds drops out after two rounds.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    share = seconds / len(calls)
    for done in range(rounds):
        for name, call in calls.items():
            if done >= 2 and sum(times[name]) > share * 500:  # half of the calls are not in the list
                continue
            if not times[name] or times[name][-1] < 100:
                call()  # what its neighbour left in the caches is not its own doing
            start = time.process_time()
            call()
            times[name].append((time.process_time() - start) * 1e3)
    return times


def look(call: Callable, exact=None) -> Look:
    """A first call in a forked copy of the process, so that its memory can be told apart.

    `exact`: float64 tensors that the call (or its `result`, for tensors of another library) should give.
    """
    if platform.system() != "Linux" or not getattr(call, "forks", True):
        start = time.process_time()
        call()
        return Look((time.process_time() - start) * 1e3, None, _error(call, exact))
    reader, writer = os.pipe()
    if child := os.fork():
        os.close(writer)
        with os.fdopen(reader) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        found = json.loads(text)
        if "failed" in found:
            raise RuntimeError(found["failed"])
        return Look(**found)
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts here
        before, start = _status("VmRSS"), time.process_time()
        out = call()
        spent, peak = (time.process_time() - start) * 1e3, (_status("VmHWM") - before) / 1024
        found = {"cpu_ms": spent, "peak_mb": round(peak, 3), "rel_error": _error(lambda: out, exact)}
    except Exception as error:  # a peer may refuse a size
        found = {"failed": f"{type(error).__name__}: {error}"[:200]}
    os.write(writer, json.dumps(found).encode())
    os._exit(0)


def _error(call: Callable, exact) -> float | None:
    """Largest difference over largest magnitude, the worst of the tensors."""
    if exact is None:
        return None
    found = getattr(call, "result", call)()
    pairs = zip(found, exact, strict=True) if isinstance(found, tuple) else [(found, exact)]
    return max(((a.double() - b).abs().max() / b.abs().max()).item() for a, b in pairs)


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


def write(path: Path, rows: list[dict], **facts: str) -> None:
    """One JSON object: facts of the machine and the rows so far; complete at any moment."""
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps({"machine": machine() | facts, "rows": rows}, indent=1) + "\n")
    scratch.replace(path)


def print_rows(rows: list[dict]) -> None:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, *([_text(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _text(value) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

"""What this process and all that descend from it cost: memory and CPU seconds, from /proc."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

PROC = Path("/proc")
KB = 1024
PPID = 1  # fields of /proc/PID/stat after the name of the program
ALL_TIMES = slice(11, 15)  # with those of children that have ended


def process_tree(root: int) -> list[int]:
    """A process and all that descend from it; [] where there is no /proc."""
    parents = {int(entry.name): _stat(int(entry.name)) for entry in PROC.glob("[0-9]*")}
    family = [root] if root in parents else []
    for parent in family:  # grows while it is read
        family += [process for process, stat in parents.items() if stat and int(stat[PPID]) == parent]
    return family


def memory_bytes(processes: Iterable[int]) -> int:
    """Proportional set size: a page that several processes share counts once."""
    return sum(map(_pss_bytes, processes))


def cpu_seconds(root: int) -> float:
    """CPU seconds of a tree of processes, with those of children that have ended and were waited for."""
    ticks = sum(sum(map(int, _stat(process)[ALL_TIMES])) for process in process_tree(root))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; [] for a process that has ended."""
    try:
        return (PROC / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _pss_bytes(process: int) -> int:
    try:
        rollup = (PROC / str(process) / "smaps_rollup").read_text()
    except OSError:  # it has ended, or is another user's
        return 0
    found = re.search(r"^Pss:\s+(\d+)", rollup, re.M)
    return int(found[1]) * KB if found else 0

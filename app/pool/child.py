"""The other side of the pool: what a process does before its first task, and how much it may take."""

import importlib
import os
import signal
import sys
from collections.abc import Callable

MEMORY = 512 * 2**20  # bytes that a task may take beyond what the process has at its start


def begin(preloaded: str, prepare: Callable[[], None], nice: int) -> None:
    """Make this process ready: what its tasks need is imported, its priority and its memory are bounded."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, and that ends this
    importlib.import_module(preloaded)  # already there where the process was forked from one that has it
    prepare()
    os.nice(nice)
    if sys.platform == "linux":
        limit_memory(MEMORY)


def limit_memory(more: int) -> None:
    """Let this process take so many bytes more than it has now; then comes a MemoryError."""
    import resource

    with open("/proc/self/status") as status:
        kilobytes = next(int(line.split()[1]) for line in status if line.startswith("VmData"))
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (kilobytes * 1024 + more, hard))


def ready() -> int:
    """A task that does nothing but say which process it is."""
    return os.getpid()

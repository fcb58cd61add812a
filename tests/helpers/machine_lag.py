"""What the machine itself is late by: a process that only sleeps, and how late it wakes.

Times of a server on a busy machine are read beside it: what a sleeper waits too is not the server's doing.
"""

import json
import subprocess
import sys
import time

PAUSE_S = 0.02


class MachineLag:
    """`with MachineLag() as lag: ...`, then seconds of lateness in `lag.waits`."""

    def __init__(self):
        self.waits: list[float] = []

    def __enter__(self) -> "MachineLag":
        self._sleeper = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_) -> None:
        out, _ = self._sleeper.communicate("stop\n")
        self.waits = json.loads(out)


def sleep_and_tell() -> None:
    """Sleep until a line comes in, then write how late each sleep has ended."""
    import threading

    stop, waits = threading.Event(), []
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    while not stop.is_set():
        start = time.perf_counter()
        time.sleep(PAUSE_S)
        waits.append(round(time.perf_counter() - start - PAUSE_S, 5))
    print(json.dumps(waits))


if __name__ == "__main__":
    sleep_and_tell()

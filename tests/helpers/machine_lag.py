"""What the machine itself is late by: a process that sleeps, does a click's worth of work, and sleeps again.

Times of a server on a busy machine are read beside it: what any small piece of work waits is not its doing.
"""

import json
import subprocess
import sys
import time

PAUSE_S, WORK_S = 0.1, 0.01  # of each round: time asleep, CPU time


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
    """Sleep and work until a line comes in, then write how late each round has ended."""
    import threading

    stop, waits = threading.Event(), []
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    while not stop.is_set():
        start = time.perf_counter()
        time.sleep(PAUSE_S)
        worked = time.process_time()
        while time.process_time() - worked < WORK_S:
            pass
        waits.append(round(time.perf_counter() - start - PAUSE_S - WORK_S, 5))
    print(json.dumps(waits))


if __name__ == "__main__":
    sleep_and_tell()

"""How late the event loop is: while one thing holds it, no visitor is answered."""

import asyncio
import time
from collections.abc import Callable

SLEEP_S = 0.01


class LoopLag:
    """Sleeps on the loop and measures how late it wakes, in seconds."""

    def __init__(self, observe: Callable[[float], object] = lambda seconds: None):
        """`observe` is called with every lag."""
        self._observe, self._largest_s = observe, 0.0

    async def measure(self) -> None:
        """Measure for ever, on the running loop."""
        while True:
            due = time.perf_counter() + SLEEP_S
            await asyncio.sleep(SLEEP_S)
            lag_s = max(0.0, time.perf_counter() - due)
            self._largest_s = max(self._largest_s, lag_s)
            self._observe(lag_s)

    def take_largest(self) -> float:
        """The largest lag since this was last asked, in seconds."""
        largest_s, self._largest_s = self._largest_s, 0.0
        return largest_s

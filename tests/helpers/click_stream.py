"""Clicks of one visitor at a fixed rate, whether or not the page answers, and what each waits."""

import asyncio
import itertools
import time

from raw_visitor import PATIENCE, RawVisitor

EVERY_S = 0.1
TABS = ("params", "code", "overview")


def go(n: int) -> str:
    """The n-th click, unlike all others, so that each writes the address once in whatever order they come."""
    return f"tab={TABS[n % len(TABS)]}&token={n}"


class ClickStream:
    """`async with ClickStream(visitor) as clicks: ...`, then seconds in `clicks.waits`.

    A click that waits does not hold back the next: a freeze of 3 s is felt by all of the 30 clicks in it.
    """

    def __init__(self, visitor: RawVisitor):
        self._visitor, self._pressed, self._ended = visitor, [], False
        self.waits: list[float] = []

    async def __aenter__(self) -> "ClickStream":
        self._mark, self._writes = len(self._visitor.changes), self._count()
        self._task = asyncio.create_task(self._press())
        return self

    async def __aexit__(self, *_) -> None:
        self._ended = True
        await self._task
        await self._settled(PATIENCE)
        answers, now = self._answers(), time.perf_counter()
        answered = itertools.chain(answers, itertools.repeat(now))  # what never came has waited until now
        self.waits = [at - pressed for pressed, at in zip(self._pressed, answered, strict=False)]

    async def _press(self) -> None:
        start = time.perf_counter()
        for n in itertools.takewhile(lambda _: not self._ended, itertools.count()):
            await asyncio.sleep(max(start + n * EVERY_S - time.perf_counter(), 0))
            self._pressed.append(time.perf_counter())
            await self._visitor.send("Shell", {"go": go(n)})

    async def _settled(self, timeout: float) -> None:
        try:
            await self._visitor.until(lambda: self._count() - self._writes >= len(self._pressed), timeout)
        except (TimeoutError, ConnectionError):
            return  # the waits show it

    def _count(self) -> int:
        return self._visitor.last("BrowserHistory").get("entry", {}).get("n", 0)  # no entry: as at first

    def _answers(self) -> list[float]:
        """When each click was answered: one message may carry the writes of several."""
        answers = []
        for change in self._visitor.changes[self._mark :]:
            if (change.component, change.attribute) == ("BrowserHistory", "entry"):
                answers += [change.at] * (change.value["n"] - self._writes - len(answers))
        return answers


def quantile(values: list[float], share: float) -> float:
    """The value that so many of them do not pass: quantile(waits, 0.95)."""
    ranked = sorted(values)
    return ranked[min(int(share * len(ranked)), len(ranked) - 1)]

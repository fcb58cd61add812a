"""What the pool makes for a part of the page: how it stands is said, and it can be stopped."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import panel as pn

from k3scope.app.page.kit.events import dispatch, execute
from k3scope.app.pool.pool import DRAWING, pool
from k3scope.app.pool.task import Task, error_of

SOON = 0.5  # seconds: what is there by then needs no word, and a page is not opened later for the rest
TICK = 0.3  # seconds between two looks at the place in the queue


class Background:
    """Starts tasks of one part of the page; `say` gets how they stand, "" once they are over."""

    def __init__(self, say: Callable[[str], None]):
        self._say, self._pending = say, set[Future]()

    def start(self, task: Task, done: Callable[[Any], None], refuse: Callable[[str], None]) -> None:
        """Have a task done. Its result goes to `done`, or the sentence why there is none to `refuse`.

        Where no browser is connected it is waited for, and dropped if it takes long.
        """
        try:
            future = pool.submit(DRAWING, task)
        except ValueError as error:
            refuse(str(error))
            return
        finish = partial(self._finish, future, done, refuse)
        doc = pn.state.curdoc
        if not (doc and doc.session_context):
            concurrent.futures.wait([future], SOON)
            if future.cancel():
                return
        if future.done():
            finish()
            return
        self._pending.add(future)
        execute(partial(self._attend, task, finish))

    def cancel(self) -> bool:
        """Stop what is on its way. Whether there was anything."""
        cancelled = {future for future in self._pending if future.cancel()}
        return bool(cancelled)

    async def _attend(self, task: Task, finish: Callable[[], None]) -> None:
        wrapped, said = asyncio.wrap_future(task.future), ""
        await asyncio.wait([wrapped], timeout=SOON)
        while not task.future.done():
            if (now := standing(task)) != said:
                said = now
                dispatch(partial(self._tell, task.future, now))
            await asyncio.wait([wrapped], timeout=TICK)
        dispatch(finish)

    def _tell(self, future: Future, text: str) -> None:
        if not future.done():
            self._say(text)

    def _finish(self, future: Future, done: Callable[[Any], None], refuse: Callable[[str], None]) -> None:
        self._pending.discard(future)
        if not self._pending:
            self._say("")
        if error := error_of(future):
            refuse(str(error))
        else:
            done(future.result())


def standing(task: Task) -> str:
    """How a task stands, in words."""
    before = pool.place(task.future)
    return f"{task.what} waits for {before} before it" if before else f"{task.what} is on its way"

"""One process and the tasks that wait for it: visitors take turns, and a task has bounded time and memory."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, TimeoutError
from functools import partial
from multiprocessing.context import BaseContext
from typing import Any

from pebble import ProcessExpired, ProcessPool

from k3scope.app.pool.task import Refused, Task

WAITING = 64  # tasks in one lane
WAITING_OF_ONE = 8  # of one visitor
STOP_SECONDS = 2  # that a process has to end


class Lane:
    """A queue before one process. Any thread may use it."""

    def __init__(self, context: BaseContext, initializer: Callable[..., None], initargs: tuple):
        self._make = partial(ProcessPool, 1, initializer=initializer, initargs=initargs, context=context)
        self._pool, self._closed = self._make(), False
        self._tasks: OrderedDict[int, deque[Task]] = OrderedDict()  # by visitor, whose turn it is first
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "lane")

    def put(self, task: Task) -> None:
        """The last place among the visitor's own. Refused when there is none."""
        with self._lock:
            self._drop_cancelled()
            own = self._tasks.setdefault(task.visitor, deque())
            if sum(map(len, self._tasks.values())) >= WAITING:
                raise Refused(f"{task.what} has to wait: {WAITING} others do already. Try again in a moment.")
            if task.visitor and len(own) >= WAITING_OF_ONE:
                raise Refused(
                    f"{task.what} has to wait: {WAITING_OF_ONE} of yours do already. Let one end first."
                )
            own.append(task)
        self._thread.submit(self._run_next)

    def place(self, future: Future) -> int:
        """How many tasks come before one that waits; 0 when it runs or is over."""
        with self._lock:
            for turn, own in enumerate(self._tasks.values()):
                for n, task in enumerate(own):
                    if task.future is future:
                        before = sum(
                            min(len(others), n + (other < turn))
                            for other, others in enumerate(self._tasks.values())
                        )
                        return before + 1
        return 0

    def close(self) -> None:
        """Stop what runs, drop what waits."""
        with self._lock:
            self._closed = True
            waiting = [task for own in self._tasks.values() for task in own]
            self._tasks.clear()
        for task in waiting:
            task.future.cancel()
        self._thread.shutdown(wait=False)
        self._pool.stop()
        self._pool.join(STOP_SECONDS)

    def _run_next(self) -> None:
        """Have the task done whose turn it is; a thread of its own waits for the process."""
        with self._lock:
            self._drop_cancelled()
            if not self._tasks:
                return
            visitor, own = self._tasks.popitem(last=False)
            task = own.popleft()
            if own:
                self._tasks[visitor] = own  # behind the others
        try:
            if not self._pool.active and not self._closed:  # its process could not begin
                self._pool = self._make()
            work = self._pool.schedule(task.function, args=task.args, timeout=task.seconds)
            task.future.add_done_callback(lambda future: future.cancelled() and work.cancel())
            task.finish(self._result(work))
        except BaseException as error:
            task.finish(error=_readable(task, error))

    def _result(self, work: Future) -> Any:
        """What came of the work. CancelledError once the lane is closed, whatever the pool left."""
        while True:
            try:
                return work.result(STOP_SECONDS)
            except TimeoutError:
                if work.done():  # its own: it took too long
                    raise
                if self._closed:
                    raise CancelledError from None

    def _drop_cancelled(self) -> None:
        for visitor, own in list(self._tasks.items()):
            for task in [task for task in own if task.future.cancelled()]:
                own.remove(task)
            if not own:
                del self._tasks[visitor]


def _readable(task: Task, error: BaseException) -> BaseException:
    """What a visitor is told of an error of the process itself; a ValueError of the task says it already."""
    if isinstance(error, TimeoutError):
        return Refused(f"{task.what} took more than {task.seconds:g} seconds and was stopped.")
    if isinstance(error, MemoryError | ProcessExpired):
        return Refused(f"{task.what} needs more memory than there is for it here.")
    if isinstance(error, CancelledError):
        return Refused(f"{task.what} was stopped.")
    return error

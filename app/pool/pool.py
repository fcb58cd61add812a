"""The processes of this server, and the way to have something done by them.

Without `start`, as in tests and on the command line, a task is done at once by who asks.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from k3scope.app.pool import child
from k3scope.app.pool.lane import Lane
from k3scope.app.pool.task import Task

QUIET_EXIT = "k3scope.app.pool.quiet_exit"
READING, DRAWING = "reading", "drawing"
# Two processes, and how far each stands back: prompts and pictures, which a run waits for, do not stand
# behind files of drawings and models to compare.
LANES = {READING: 0, DRAWING: 10}


class Pool:
    """Two lanes, or none: then every task is done by its caller."""

    def __init__(self):
        self._lanes: dict[str, Lane] = {}

    def start(
        self, preloaded: str, prepare: Callable[[], None], warm: Callable[[], None] = child.ready
    ) -> None:
        """Start the processes. `preloaded` is the module that imports what tasks need; `prepare` is called
        once in each process, so it can be pickled, and `warm` is the first task of the one that draws.

        They are forked from one server that has imported the module: what they share is in memory once, and
        one that had to be stopped is back in a moment.
        """
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            context.set_forkserver_preload([preloaded, QUIET_EXIT])
        self._lanes = {
            name: Lane(context, child.begin, (preloaded, prepare, nice)) for name, nice in LANES.items()
        }
        for lane, first in ((READING, child.ready), (DRAWING, warm)):
            self._lanes[lane].put(Task("The start", first, seconds=120))

    def submit(self, lane: str, task: Task) -> Future:
        """The task's future. Refused when too many wait."""
        if self._lanes:
            self._lanes[lane].put(task)
            return task.future
        try:
            task.finish(task.function(*task.args))
        except Exception as error:
            task.finish(error=error)
        return task.future

    def place(self, future: Future) -> int:
        """How many tasks come before one that waits; 0 when it runs or is over."""
        return max((lane.place(future) for lane in self._lanes.values()), default=0)

    def close(self) -> None:
        """Stop what runs, drop what waits."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes = {}


pool = Pool()


def submit(
    lane: str, what: str, function: Callable[..., Any], *args: Any, seconds: float = 10, visitor: int = 0
) -> Future:
    """Have a function of a module done in a lane of the pool; see Task. Refused when too many wait."""
    return pool.submit(lane, Task(what, function, args, seconds, visitor))

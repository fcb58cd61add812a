"""A piece of work for another process: what it is, how long it may take, and what is said when it may not."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any


class Refused(ValueError):
    """What was asked for is not done; the sentence is for the visitor who asked."""


def error_of(future: Future) -> BaseException | None:
    """Why a future that is over has no result; None when it has one."""
    return Refused("Cancelled.") if future.cancelled() else future.exception()


@dataclass(frozen=True, eq=False)
class Task:
    """A call of a function of a module with arguments that can be pickled.

    `what` names it in the sentences of its refusal, with a capital: "The picture". `future` ends with the
    result, with a ValueError of the function, or with Refused; cancelling it stops the work where it is.
    """

    what: str
    function: Callable[..., Any]
    args: tuple = ()
    seconds: float = 10.0  # then it is stopped
    visitor: int = 0  # any number that tells visitors apart: they take turns
    future: Future = field(default_factory=Future)

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        """End the future, unless it was cancelled."""
        if not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

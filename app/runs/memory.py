"""Memory that was freed, given back to the system."""

import ctypes
import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def return_memory() -> None:
    """glibc would keep half a gigabyte after a long pass, and as much after its pictures."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def returning_memory(make: Callable[[], T]) -> T:
    """What a function makes, and nothing beside it."""
    try:
        return make()
    finally:
        return_memory()

"""A cache of texts that is bounded in bytes: pages and panes are made of links, and links are endless."""

import threading
from collections.abc import Callable

from cachetools import LRUCache, cached

BYTES_OF_A_CHARACTER = 2  # of text that is not all Latin


def text_cache(megabytes: int) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Keep what a function of hashable arguments gives, up to so much; what was used longest ago goes first.

    Any thread may call it. A text that is larger than all of it is made each time.
    """
    cache = LRUCache(megabytes * 2**20, getsizeof=lambda text: BYTES_OF_A_CHARACTER * len(text))
    return cached(cache, lock=threading.Lock(), info=True)

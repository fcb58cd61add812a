"""Imported by the process that others are forked from, and by nothing else: it ends without a word.

Libraries that it has loaded would print what they think of the end of a process; what it holds goes anyway.
"""

import atexit
import os

atexit.register(os._exit, 0)

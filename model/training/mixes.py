"""What each part of the training reads: share of rows by domain, and the length of a row in tokens."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    shares: dict[str, float]
    length: int  # tokens of a row
    rows: int  # per worker and step


_STORIES = {"story": 0.10, "german": 0.05, "french": 0.05, "spanish": 0.05}
_TASKS = {
    "keyvalue": 0.06, "recall": 0.06, "lookup": 0.06, "long_repeat": 0.09, "repeat": 0.02,
    "short_repeat": 0.01, "copying": 0.03, "arithmetic": 0.03, "counting": 0.02, "brackets": 0.01,
}  # fmt: skip
_TEXT = {
    "code": 0.12, "austen": 0.10, "glosses": 0.04, "bible": 0.03, "moby": 0.03, "speeches": 0.02,
    "docs": 0.02,
}  # fmt: skip

PHASES = {
    # short repeats first: copying what followed the last time is the first thing that pays
    "begin": Phase(
        {"short_repeat": 0.40, "keyvalue": 0.08, "recall": 0.08, "story": 0.14, "german": 0.04,
         "french": 0.04, "spanish": 0.04, "code": 0.08, "austen": 0.05, "glosses": 0.05},
        128, 4,
    ),
    "main": Phase(_STORIES | _TASKS | _TEXT, 256, 4),
    # while the rate falls: more of what is looked up, and of code
    "anneal": Phase(
        {"story": 0.08, "german": 0.04, "french": 0.04, "spanish": 0.04, "keyvalue": 0.10, "recall": 0.09,
         "lookup": 0.07, "long_repeat": 0.07, "repeat": 0.02, "short_repeat": 0.01, "copying": 0.03,
         "arithmetic": 0.03, "counting": 0.02, "brackets": 0.01, "code": 0.14, "austen": 0.07,
         "glosses": 0.03, "bible": 0.03, "moby": 0.03, "speeches": 0.02, "docs": 0.03},
        256, 4,
    ),
}  # fmt: skip

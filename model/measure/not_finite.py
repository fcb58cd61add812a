"""NaN and infinity in words: what is no number is said, and never shown as one."""

import math

NOT_A_NUMBER = "not a number"


class NotFinite(ValueError):
    """A pass gave NaN or infinity, so there is nothing to show. A command that ends with it exits with 1."""

    exit_status = 1


def number(value: float, spec: str = "", unit: str = "") -> str:
    """A value in the format `spec`, with its unit; in words when it is NaN or infinite."""
    value = float(value) if not isinstance(value, int) else value
    if math.isnan(value):
        return NOT_A_NUMBER
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return f"{value:{spec}} {unit}".rstrip()


def of_many(bad: int, count: int, what: str) -> str:
    """How many of what is shown are no numbers, as a sentence; "" for none."""
    if not bad:
        return ""
    return f"{bad:,} of {count:,} {what} {'is' if bad == 1 else 'are'} not finite."


def sentence(point: str) -> str:
    """Where the first NaN or infinity of a pass came from."""
    return f"NaN or infinity first appeared in {point}: what follows from it means nothing."

"""How much the store of runs keeps, and for how long; what goes first when that is too much."""

import sqlite3
from dataclasses import dataclass

STORE_MB = 512  # of a file
MEMORY_MB = 64  # of a store in memory
DAY = 24 * 60 * 60  # seconds
# A run without a date is at least as old as the schema that has dates.
EXPIRED = """
DELETE FROM runs WHERE n IN (SELECT n FROM runs WHERE created < :before
  OR created IS NULL AND (SELECT since FROM dated) < :before LIMIT :most)
"""
OLDEST = "DELETE FROM runs WHERE n IN (SELECT n FROM runs ORDER BY n LIMIT ?)"


@dataclass(frozen=True)
class Retention:
    """Bounds of a store. The runs that ran longest ago go first, with the images that no other run has."""

    megabytes: int = STORE_MB  # of all runs and images together, as pages of the file
    days: int = 0  # since a run ran last; 0: no bound
    runs: int = 20_000

    @property
    def bytes(self) -> int:
        return self.megabytes * 2**20

    def before(self, now: float) -> float:
        """Unix time of the oldest run that is kept."""
        return now - self.days * DAY if self.days else float("-inf")


UNBOUNDED = Retention(2**40, 0, 2**62)


def used_bytes(db: sqlite3.Connection) -> int:
    """What the runs and images take, without the pages that are free."""
    (pages,), (free,), (size,) = (
        db.execute(f"PRAGMA {what}").fetchone() for what in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def prune(db: sqlite3.Connection, retention: Retention, now: float, most: int = -1) -> int:
    """Delete, inside a transaction, what is beyond the bounds; the number of runs that went.

    With `most`, at most so many for each bound: call it until it gives 0.
    """
    removed = 0
    if retention.days:
        removed += db.execute(EXPIRED, {"before": retention.before(now), "most": most}).rowcount
    count = db.execute("SELECT count(*) FROM runs").fetchone()[0]
    if (beyond := count - retention.runs) > 0:
        removed += db.execute(OLDEST, (beyond if most < 0 else min(beyond, most),)).rowcount
    return removed + _shrink(db, retention.bytes, most)


def _shrink(db: sqlite3.Connection, bound: int, most: int) -> int:
    """One run after the other, since nobody knows how many pages each one frees."""
    removed = 0
    while removed != most and used_bytes(db) > bound and db.execute(OLDEST, (1,)).rowcount:
        removed += 1
    return removed

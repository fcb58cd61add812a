"""The file of the store of runs: where it is, what cannot be one, and what becomes of a damaged one."""

import os
import sqlite3
import time
from pathlib import Path

from k3scope.app.runs.store_schema import PAGE, check, migrate

MEMORY = ":memory:"
OPENING_MS = 10_000  # to wait for another process, which may be migrating the same store
BUSY_MS = 2000  # to wait for another program's lock once the store is open
HEADER = b"SQLite format 3\0"
TABLE = b"(n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "  # of runs, as the first pages say it
WAL_BYTES = 4 * 2**20  # of the write-ahead log between two writes
REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it may not be written",
    sqlite3.SQLITE_PERM: "it may not be written",
    sqlite3.SQLITE_BUSY: "another program has locked it",
    sqlite3.SQLITE_LOCKED: "another program has locked it",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite file",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened or made",
}


class Damaged(Exception):
    """A file that SQLite cannot read, or not all of it."""


def default_path() -> Path:
    """Where runs are kept unless another place is named."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "k3scope" / "runs.sqlite"


def reason(error: Exception) -> str:
    """Why the store cannot be read or written, in words."""
    if isinstance(error, OSError):
        return f"its folder cannot be made ({error.strerror})"
    return REASONS.get(_code(error), str(error))


def _code(error: Exception) -> int:
    """SQLite's number of an error; an extended one has the plain one in its low byte."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def open_file(path: str, mend: bool = False) -> tuple[sqlite3.Connection, str]:
    """A connection to a store of today's schema, and a sentence if a damaged one had to be set aside.

    With `mend`, a damaged store is renamed and a new one begun. That is done with a file of which is known
    that it was ours: it lies where k3scope puts its own, or its first pages name our tables. ValueError says
    in one sentence why there is no store; such a file stays as it is.
    """
    path = path if path == MEMORY else os.path.realpath(path)
    try:
        try:
            return _open(path), ""
        except Damaged as damage:
            if not (mend and _was_ours(path)):
                raise
            aside = _set_aside(path)
            sentence = f"{path} was damaged ({damage}); it is set aside as {aside}, and a new store is begun"
            return _open(path), sentence
    except (OSError, sqlite3.Error, Damaged) as error:
        why = "it is a directory" if os.path.isdir(path) else reason(error)
        raise ValueError(
            f"{path} cannot be the store of runs: {why}; name another file with --store"
        ) from error


def reader(path: str) -> sqlite3.Connection:
    """A second connection for reading: it waits for no writer."""
    db = sqlite3.connect(os.path.realpath(path), check_same_thread=False, isolation_level=None)
    db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    db.execute("PRAGMA query_only = ON")
    return db


def erase(db: sqlite3.Connection) -> bool:
    """Give the pages of what was deleted back to the disk, and empty the write-ahead log, which has copies.

    False when a reader in another process still needs the log: call it again later.
    """
    while free := db.execute("PRAGMA freelist_count").fetchone()[0]:
        db.execute("PRAGMA incremental_vacuum(1000)").fetchall()  # in steps: others write in between
        if db.execute("PRAGMA freelist_count").fetchone()[0] >= free:
            break
    return db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def _open(path: str) -> sqlite3.Connection:
    if path != MEMORY:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        _check_header(path)
    db = sqlite3.connect(path, check_same_thread=False, timeout=OPENING_MS / 1000, isolation_level=None)
    try:
        check(db, path)  # before anything is written
        if (first := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise Damaged(" ".join(first.split()))
        _prepare(db, path)
    except sqlite3.DatabaseError as error:
        db.close()
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise Damaged(reason(error)) from error
        raise
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: str) -> None:
    db.execute("PRAGMA secure_delete = ON")
    vacuumed = db.execute("PRAGMA auto_vacuum").fetchone()[0] == 2
    if not vacuumed:
        db.execute(f"PRAGMA page_size = {PAGE}")
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file; an older one has to be written anew
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
    migrate(db, path)
    if not vacuumed and db.execute("PRAGMA auto_vacuum").fetchone()[0] != 2:
        _vacuum(db)
    db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")


def _vacuum(db: sqlite3.Connection) -> None:
    """Write a store of schema 1 anew, so that it can shrink; without room for that it does not."""
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError:
        pass


def _check_header(path: str) -> None:
    """Damaged for a file that is none of SQLite's, before SQLite looks for a log beside it."""
    if os.path.isfile(path) and os.path.getsize(path):
        with open(path, "rb") as file:
            if file.read(len(HEADER)) != HEADER:
                raise Damaged(REASONS[sqlite3.SQLITE_NOTADB])


def _was_ours(path: str) -> bool:
    """Whether a file lies at our own place, or is binary and its first pages name our tables."""
    if path == os.path.realpath(default_path()):
        return True
    with open(path, "rb") as file:
        first = file.read(16 * PAGE)
    return TABLE in first and b"\0" in first


def _set_aside(path: str) -> str:
    """Rename a file and its logs; the new name."""
    stem = aside = f"{path}.corrupt-{time.strftime('%Y%m%d-%H%M%S')}"
    n = 1
    while os.path.exists(aside):
        n += 1
        aside = f"{stem}-{n}"
    for end in ("-wal", "-shm", ""):  # the file last: while it is there, a second start sets it aside
        if os.path.exists(path + end):
            os.rename(path + end, aside + end)
    return aside

"""Runs by id and their images, kept in SQLite, so that a link works after a restart."""

import os
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path

from k3scope.app.runs.run_spec import RunSpec

KEPT = 20_000  # specs; the oldest go first
KEPT_BYTES = 256 * 2**20  # of all images together; those that ran longest ago go first
# Entry n brings a store from schema n to n + 1. One that was released stays: other tables are another entry.
MIGRATIONS = (
    # from what 0.1.0 wrote, the same tables without a version, or from an empty file
    (
        """CREATE TABLE IF NOT EXISTS runs
             (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, spec TEXT NOT NULL)""",
        """CREATE TABLE IF NOT EXISTS images
             (n INTEGER PRIMARY KEY, sha TEXT UNIQUE NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL,
              data BLOB)""",
    ),
)
SCHEMA = len(MIGRATIONS)  # of the stores that are written, as `PRAGMA user_version`
TOO_MUCH = """
DELETE FROM images WHERE n IN
  (SELECT n FROM (SELECT n, sum(bytes) OVER (ORDER BY n DESC) AS newer FROM images) WHERE newer > ?)
"""


def default_path() -> Path:
    """Where runs are kept unless another place is named."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "k3scope" / "runs.sqlite"


def _open(path: str) -> sqlite3.Connection:
    """A connection to a store of today's schema. ValueError says in one sentence why there is none."""
    try:
        if path != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, check_same_thread=False, timeout=10)
        try:
            _check(db, path)  # before anything is written
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            _migrate(db, path)
        except BaseException:
            db.close()
            raise
    except (OSError, sqlite3.Error) as error:
        why = _reason(path, error)
        raise ValueError(
            f"{path} cannot be the store of runs: {why}; name another file with --store"
        ) from error
    return db


def _check(db: sqlite3.Connection, path: str) -> int:
    """The schema of a store. A newer one, and what another program keeps in SQLite, is an error."""
    schema = db.execute("PRAGMA user_version").fetchone()[0]
    if schema > SCHEMA:
        raise ValueError(
            f"{path} is a store of schema {schema}, written by a newer k3scope; this one knows schemas up to "
            f"{SCHEMA} and leaves it as it is: update k3scope, or name another file with --store"
        )
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        db.execute("SELECT id, spec FROM runs LIMIT 0")
    return schema


def _migrate(db: sqlite3.Connection, path: str) -> None:
    with db:
        db.execute("BEGIN IMMEDIATE")  # a second process waits here, and then finds the work done
        schema = _check(db, path)
        for statements in MIGRATIONS[schema:]:
            for statement in statements:
                db.execute(statement)
        if schema < SCHEMA:
            db.execute(f"PRAGMA user_version = {SCHEMA}")


def _reason(path: str, error: OSError | sqlite3.Error) -> str:
    if isinstance(error, OSError):
        return f"its folder cannot be made ({error.strerror})"
    return "it is a directory" if os.path.isdir(path) else str(error)


class Store:
    """What was run, by id: model, weights, prompt and images, never results. Any thread may use it.

    A store of an older schema is migrated when it is opened. ValueError: one of a newer schema, which stays
    as it is, or a path that cannot be a store.
    """

    def __init__(self, path: str | Path = ":memory:", kept: int = KEPT, kept_bytes: int = KEPT_BYTES):
        self._kept, self._kept_bytes = kept, kept_bytes
        self._lock = threading.Lock()
        self._db = _open(str(path))

    def put(self, spec: RunSpec, images: Mapping[str, tuple[str, bytes]] | None = None) -> None:
        """Keep a run and the files it names: sha256 -> name and bytes."""
        files = [(sha, name, len(data), data) for sha, (name, data) in (images or {}).items()]
        with self._lock, self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO runs (id, spec) VALUES (?, ?)", (spec.id, spec.canonical)
            )
            self._db.execute("DELETE FROM runs WHERE n <= (SELECT max(n) FROM runs) - ?", (self._kept,))
            if files:
                self._db.executemany(
                    "INSERT OR REPLACE INTO images (sha, name, bytes, data) VALUES (?, ?, ?, ?)", files
                )
                self._db.execute(TOO_MUCH, (self._kept_bytes,))

    def get(self, run_id: str) -> RunSpec | None:
        """The spec of a run, None when this store does not know it."""
        with self._lock:
            row = self._db.execute("SELECT spec FROM runs WHERE id = ?", (run_id,)).fetchone()
        return RunSpec.read(row[0]) if row else None

    def image(self, sha: str) -> tuple[str, bytes] | None:
        """Name and bytes of an image of a run, None when it is not kept or not kept any more."""
        with self._lock:
            return self._db.execute("SELECT name, data FROM images WHERE sha = ?", (sha,)).fetchone()

    def __len__(self) -> int:
        with self._lock:
            return self._db.execute("SELECT count(*) FROM runs").fetchone()[0]

    def close(self) -> None:
        with self._lock:
            self._db.close()

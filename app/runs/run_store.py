"""Runs by id and their images, kept in SQLite, so that a link works after a restart."""

import os
import sqlite3
import threading
from collections.abc import Mapping
from pathlib import Path

from k3scope.app.runs.run_spec import RunSpec

KEPT = 20_000  # specs; the oldest go first
KEPT_BYTES = 256 * 2**20  # of all images together; those that ran longest ago go first
TABLES = """
CREATE TABLE IF NOT EXISTS runs (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, spec TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS images
  (n INTEGER PRIMARY KEY, sha TEXT UNIQUE NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, data BLOB);
"""
TOO_MUCH = """
DELETE FROM images WHERE n IN
  (SELECT n FROM (SELECT n, sum(bytes) OVER (ORDER BY n DESC) AS newer FROM images) WHERE newer > ?)
"""


def default_path() -> Path:
    """Where runs are kept unless another place is named."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "k3scope" / "runs.sqlite"


class Store:
    """What was run, by id: model, weights, prompt and images, never results. Any thread may use it."""

    def __init__(self, path: str | Path = ":memory:", kept: int = KEPT, kept_bytes: int = KEPT_BYTES):
        self._kept, self._kept_bytes = kept, kept_bytes
        self._lock = threading.Lock()
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(str(path), check_same_thread=False, timeout=10)
        with self._lock, self._db:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(TABLES)

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

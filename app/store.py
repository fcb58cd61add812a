"""Runs by id, kept in SQLite, so that a link works after a restart."""

import json
import os
import sqlite3
import threading
from pathlib import Path

from app.spec import RunSpec

KEPT = 20_000  # specs; the oldest go first


def default_path() -> Path:
    """Where runs are kept unless another place is named."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "k3scope" / "runs.sqlite"


class Store:
    """What was run, by id: model, weights and prompt, never results. Any thread may use it."""

    def __init__(self, path: str | Path = ":memory:", kept: int = KEPT):
        self._kept = kept
        self._lock = threading.Lock()
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(str(path), check_same_thread=False, timeout=10)
        with self._lock, self._db:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS runs"
                " (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, spec TEXT NOT NULL)"
            )

    def put(self, spec: RunSpec) -> None:
        with self._lock, self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO runs (id, spec) VALUES (?, ?)", (spec.id, spec.canonical)
            )
            self._db.execute("DELETE FROM runs WHERE n <= (SELECT max(n) FROM runs) - ?", (self._kept,))

    def get(self, run_id: str) -> RunSpec | None:
        """The spec of a run, None when this store does not know it."""
        with self._lock:
            row = self._db.execute("SELECT spec FROM runs WHERE id = ?", (run_id,)).fetchone()
        return RunSpec(**json.loads(row[0])) if row else None

    def __len__(self) -> int:
        with self._lock:
            return self._db.execute("SELECT count(*) FROM runs").fetchone()[0]

    def close(self) -> None:
        with self._lock:
            self._db.close()

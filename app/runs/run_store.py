"""Runs by id and their images, kept in SQLite, so that a link works after a restart."""

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from k3scope.app.runs import retention, store_file
from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.store_schema import PAD

STEP = 200  # runs that one transaction removes or one query reads: a server beside it writes in between


class StoreError(Exception):
    """The store could not do it; the text is the reason in words, such as "the disk is full"."""


@dataclass(frozen=True)
class StoredRun:
    """A run as the store has it."""

    spec: RunSpec
    created: int | None  # unix time when it ran last; None: before the store had dates
    image_bytes: int  # of its images that are kept; other runs may have them too


class Store:
    """What was run, by id: model, weights, prompt and images, never results. Any thread may use it.

    A store of an older schema is migrated when it is opened, and what is beyond the bounds goes then and at
    every `put`. ValueError: one of a newer schema, which stays as it is, or a path that cannot be a store.
    With `mend` a damaged store is set aside, `set_aside` says so, and a new one begins.

    Writing raises StoreError, and then nothing has changed. Reading never fails: what cannot be read is not
    there, and the reason goes to stderr.
    """

    def __init__(
        self,
        path: str | Path = store_file.MEMORY,
        bounds: Retention | None = None,
        mend: bool = False,
        clock: Callable[[], float] = time.time,
    ):
        self.path, self.in_memory = str(path), str(path) == store_file.MEMORY
        self.bounds = bounds or Retention(retention.MEMORY_MB if self.in_memory else retention.STORE_MB)
        self._clock = clock
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._db, self.set_aside = store_file.open_file(self.path, mend)
        self._reader = self._db if self.in_memory else store_file.reader(self.path)
        if self.in_memory:  # one connection, so one lock
            self._reading = self._lock
        self._erased = False  # whether what was deleted is out of the file and its log; True once it is
        self._problem = ""  # the last that was reported
        if self.bounds != retention.UNBOUNDED:
            with suppress(StoreError):  # it can still be read
                self.prune()

    def put(
        self,
        spec: RunSpec,
        images: Mapping[str, tuple[str, bytes]] | None = None,
        owners: Collection[str] = (),
    ) -> None:
        """Keep a run and the files it names, sha256 -> name and bytes, as one of these owners."""
        files = {sha: (name, data) for sha, (name, data) in (images or {}).items()}
        text = spec.canonical.encode()
        with self._write() as db:
            # REPLACE fires no trigger: who owned the run before still does
            db.execute(
                "INSERT OR REPLACE INTO runs (id, created, spec) VALUES (?, ?, ?)",
                (spec.id, int(self._clock()), bytes(PAD) + text),
            )
            db.executemany(
                "INSERT OR IGNORE INTO images (sha, bytes, data, name) VALUES (?, ?, ?, ?)",
                ((sha, len(data), bytes(PAD) + data, name) for sha, (name, data) in files.items()),
            )
            db.executemany(
                "INSERT OR IGNORE INTO run_images (run_id, sha) VALUES (?, ?)",
                ((spec.id, sha) for sha in spec.images),
            )
            self._own(db, spec.id, owners)
            if retention.prune(db, self.bounds, self._clock()):
                self._erased = False
            if not db.execute("SELECT 1 FROM runs WHERE id = ?", (spec.id,)).fetchone():
                raise StoreError(f"it is larger than the {self.bounds.megabytes:,} MB of the whole store")

    def own(self, run_id: str, owner: str, if_nobody: bool = False) -> None:
        """A run that is kept already is this owner's too; with `if_nobody`, only if it is nobody's."""
        with self._write() as db:
            free = """SELECT 1 FROM runs
                      WHERE id = ? AND NOT (? AND EXISTS (SELECT 1 FROM owners WHERE run_id = id))"""
            if db.execute(free, (run_id, if_nobody)).fetchone():
                self._own(db, run_id, [owner])

    def forget(self, owner: str) -> list[str]:
        """An owner owns nothing any more. The ids of the runs that then had no owner: they are gone."""
        with self._write() as db:
            owned = "SELECT run_id FROM owners WHERE owner = :owner"
            alone = f"""id IN ({owned}) AND NOT EXISTS
              (SELECT 1 FROM owners WHERE run_id = runs.id AND owner != :owner)"""
            gone = [row[0] for row in db.execute(f"SELECT id FROM runs WHERE {alone}", {"owner": owner})]
            db.execute(f"DELETE FROM runs WHERE {alone}", {"owner": owner})
            db.execute("DELETE FROM owners WHERE owner = ?", (owner,))
            self._erased = False
        return gone

    def prune(self, bounds: Retention | None = None) -> int:
        """Remove what is beyond the bounds of the store, or of these; the number of runs."""
        removed = 0
        while True:
            with self._write() as db:
                step = retention.prune(db, bounds or self.bounds, self._clock(), STEP)
                self._erased = False
            if not step:
                return removed
            removed += step

    def get(self, run_id: str) -> RunSpec | None:
        """The spec of a run, None when this store does not know it or has kept it too long."""
        query = """SELECT substr(spec, ?) FROM runs
                   WHERE id = ? AND ifnull(created, (SELECT since FROM dated)) >= ?"""
        rows = self._read(query, PAD + 1, run_id, self.bounds.before(self._clock()))
        return self._spec(*rows[0], run_id) if rows else None

    def image(self, sha: str) -> tuple[str, bytes] | None:
        """Name and bytes of an image of a run, None when it is not kept or not kept any more."""
        rows = self._read("SELECT name, substr(data, ?) FROM images WHERE sha = ?", PAD + 1, sha)
        return rows[0] if rows else None

    def runs(self) -> Iterator[StoredRun]:
        """Every run, the one that ran longest ago first."""
        query = """SELECT n, id, substr(spec, ?), created, (SELECT ifnull(sum(bytes), 0)
                     FROM run_images JOIN images USING (sha) WHERE run_id = id)
                   FROM runs WHERE n > ? ORDER BY n LIMIT ?"""
        last = 0
        while rows := self._read(query, PAD + 1, last, STEP):
            for n, run_id, text, created, image_bytes in rows:
                last = n
                if spec := self._spec(text, run_id):
                    yield StoredRun(spec, created, image_bytes)

    def __len__(self) -> int:
        rows = self._read("SELECT count(*) FROM runs")
        return rows[0][0] if rows else 0

    @property
    def disk_bytes(self) -> int:
        """Of the file and its logs; of the pages in use where there is no file."""
        if self.in_memory:
            return retention.used_bytes(self._db)
        files = [Path(self.path + end) for end in ("", "-wal", "-shm")]
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        with self._lock:
            self._db.close()
        if not self.in_memory:
            with self._reading:
                self._reader.close()

    def _spec(self, text: bytes, run_id: str) -> RunSpec | None:
        """The spec of a stored text, None when that is not the text of the run: SQLite has no checksums."""
        with suppress(ValueError, TypeError, LookupError):
            if (spec := RunSpec.read(text.decode())).id == run_id:
                return spec
        self._report(store_file.REASONS[sqlite3.SQLITE_CORRUPT])
        return None

    @staticmethod
    def _own(db: sqlite3.Connection, run_id: str, owners: Collection[str]) -> None:
        rows = ((run_id, owner) for owner in owners if owner)
        db.executemany("INSERT OR IGNORE INTO owners (run_id, owner) VALUES (?, ?)", rows)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """A transaction, and then what it deleted is erased. StoreError when it could not be made."""
        with self._lock:
            db = self._db
            try:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
                self._problem = ""
            except sqlite3.Error as error:
                why = store_file.reason(error)
                self._report(why)
                raise StoreError(why) from error
            with suppress(sqlite3.Error):  # the change is made; the next write tries again
                self._erased = self._erased or store_file.erase(db)

    def _read(self, query: str, *values) -> list[tuple]:
        """All rows; none when they cannot be read."""
        with self._reading:
            try:
                return self._reader.execute(query, values).fetchall()
            except sqlite3.Error as error:
                self._report(store_file.reason(error))
                return []

    def _report(self, problem: str) -> None:
        """To the operator, once until writing works again; never what a visitor typed."""
        if problem != self._problem:
            self._problem = problem
            print(f"k3scope: the store of runs {self.path}: {problem}", file=sys.stderr, flush=True)

"""The tables of the store of runs by version, and the way from an older version to today's.

SQLite zeroes what is deleted (`secure_delete`), but a row that it moves to another page may leave a copy in
the gap of the first, where nothing zeroes it. Only the beginning of a row is ever moved, at most
`page size - 35` bytes; the rest stands in pages of its own. So texts and images have PAD zeros in front, and
what visitors sent is never in what is moved.
"""

import sqlite3

PAGE = 4096  # bytes
PAD = PAGE
_PADDED = f"CAST(zeroblob({PAD}) || CAST({{0}} AS BLOB) AS BLOB)"
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
    # dates, owners, which images a run has, and texts and images that leave no copy
    (
        """CREATE TABLE run_images (run_id TEXT NOT NULL, sha TEXT NOT NULL, PRIMARY KEY (run_id, sha))
             WITHOUT ROWID""",
        "CREATE INDEX runs_of_image ON run_images (sha)",
        """INSERT OR IGNORE INTO run_images SELECT runs.id, value
             FROM runs, json_each(CASE WHEN json_valid(spec) THEN spec ELSE '{}' END, '$.images')""",
        """CREATE TABLE new_runs  -- `created` in unix seconds, NULL where schema 1 did not know it
             (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, created INTEGER, spec BLOB NOT NULL)""",
        f"INSERT INTO new_runs SELECT n, id, NULL, {_PADDED.format('spec')} FROM runs",
        "DROP TABLE runs",
        "ALTER TABLE new_runs RENAME TO runs",
        "CREATE INDEX runs_by_age ON runs (created)",
        """CREATE TABLE new_images  -- the name behind the padded data: a name can tell as much
             (sha TEXT PRIMARY KEY NOT NULL, bytes INTEGER NOT NULL, data BLOB NOT NULL,
              name TEXT NOT NULL)""",
        f"""INSERT INTO new_images SELECT sha, bytes, {_PADDED.format("coalesce(data, '')")}, name FROM images
             WHERE sha IN (SELECT sha FROM run_images)""",
        "DROP TABLE images",
        "ALTER TABLE new_images RENAME TO images",
        """CREATE TABLE owners (run_id TEXT NOT NULL, owner TEXT NOT NULL, PRIMARY KEY (run_id, owner))
             WITHOUT ROWID""",
        "CREATE INDEX runs_of_owner ON owners (owner)",
        # a run takes with it whose it was, and the images that no other run has
        """CREATE TRIGGER run_gone AFTER DELETE ON runs BEGIN
             DELETE FROM owners WHERE run_id = old.id;
             DELETE FROM run_images WHERE run_id = old.id;
           END""",
        """CREATE TRIGGER image_gone AFTER DELETE ON run_images
             WHEN NOT EXISTS (SELECT 1 FROM run_images WHERE sha = old.sha)
             BEGIN DELETE FROM images WHERE sha = old.sha; END""",
        "CREATE TABLE dated (since INTEGER NOT NULL)  -- unix seconds: what has no date is older",
        "INSERT INTO dated SELECT CAST(strftime('%s', 'now') AS INTEGER)",
    ),
)
SCHEMA = len(MIGRATIONS)  # of the stores that are written, as `PRAGMA user_version`


def check(db: sqlite3.Connection, path: str) -> int:
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


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring a store to today's schema, all of it or nothing."""
    if check(db, path) == SCHEMA:
        return
    db.execute("BEGIN IMMEDIATE")  # a second process waits here, and then finds the work done
    try:
        for statements in MIGRATIONS[check(db, path) :]:
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise

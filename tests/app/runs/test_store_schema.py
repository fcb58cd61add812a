"""A store of an older release opens with all it holds; a newer one, or no store at all, is left as it is."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from k3scope.app.runs import store_schema
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
from k3scope.app.runs.store_schema import SCHEMA

OLD = Path(__file__).parents[2] / "data" / "store_0.1.0.sql"  # dumped from a store that 0.1.0 wrote
RUNS = re.findall(r"""INSERT INTO "runs" VALUES\(\d+,'(\w{12})','(.*)'\);""", OLD.read_text(encoding="utf-8"))


@pytest.fixture
def old(tmp_path) -> Path:
    path = tmp_path / "runs.sqlite"
    db = sqlite3.connect(path)
    db.executescript(OLD.read_text(encoding="utf-8"))
    db.close()
    return path


def version_of(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        return db.execute("PRAGMA user_version").fetchone()[0]
    finally:
        db.close()


def test_the_old_store_has_runs_with_every_field():
    keys = {key for _, text in RUNS for key in json.loads(text)}
    assert keys == {"model", "weights", "prompt", "images", "changes", "more"}
    assert len(RUNS) == 7


@pytest.mark.parametrize(("run_id", "stored"), RUNS, ids=[run_id for run_id, _ in RUNS])
def test_a_run_of_the_old_store_keeps_its_id_and_its_text(old, run_id, stored):
    spec = Store(old).get(run_id)
    values = json.loads(stored)
    assert (spec.id, json.loads(spec.canonical)) == (run_id, values)
    assert (spec.model, spec.weights, spec.prompt) == (values["model"], values["weights"], values["prompt"])
    assert spec.interventions == values.get("changes", "")
    assert spec.generated_ids == tuple(values.get("more", ()))
    assert spec.images == tuple(values.get("images", ()))


def test_an_old_store_is_migrated_once_and_loses_nothing(old):
    assert version_of(old) == 0
    first = Store(old)
    assert version_of(old) == SCHEMA
    assert len(first) == len(RUNS)
    pictures = dict(re.findall(r"""INSERT INTO "images" VALUES\(\d+,'(\w+)','([\w.]+)'""", OLD.read_text()))
    assert {sha: first.image(sha)[0] for sha in pictures} == pictures
    assert first.image(next(iter(pictures)))[1] == b"\x89PNG ring"
    first.put(RunSpec("k3-tiny", "0123456789ab", "new"))
    first.close()
    assert len(Store(old)) == len(RUNS) + 1


def test_a_new_store_has_the_schema_of_today(tmp_path):
    Store(tmp_path / "new.sqlite").close()
    assert version_of(tmp_path / "new.sqlite") == SCHEMA


def test_the_next_migration_runs_on_top_of_those_before(old, monkeypatch):
    monkeypatch.setattr(
        store_schema,
        "MIGRATIONS",
        (*store_schema.MIGRATIONS, ("ALTER TABLE runs ADD COLUMN note TEXT DEFAULT ''",)),
    )
    monkeypatch.setattr(store_schema, "SCHEMA", SCHEMA + 1)
    store = Store(old)
    assert version_of(old) == SCHEMA + 1
    assert store._db.execute("SELECT count(note) FROM runs").fetchone() == (len(RUNS),)


def test_a_migration_that_fails_leaves_the_store_as_it_was(old, monkeypatch):
    broken = ("ALTER TABLE runs ADD COLUMN note TEXT", "this is no SQL")
    monkeypatch.setattr(store_schema, "MIGRATIONS", (*store_schema.MIGRATIONS, broken))
    monkeypatch.setattr(store_schema, "SCHEMA", SCHEMA + 1)
    with pytest.raises(ValueError, match="cannot be the store of runs"):
        Store(old)
    assert version_of(old) == 0
    monkeypatch.undo()
    assert len(Store(old)) == len(RUNS)


def test_a_newer_store_is_refused_and_stays_as_it_is(old):
    Store(old).close()
    db = sqlite3.connect(old)
    db.execute(f"PRAGMA user_version = {SCHEMA + 6}")
    db.close()
    before = old.read_bytes()
    with pytest.raises(
        ValueError, match=rf"schema {SCHEMA + 6}.*knows schemas up to {SCHEMA}.*update k3scope"
    ):
        Store(old)
    assert old.read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be one" * 40, b"\x89PNG"])
def test_another_file_is_refused_and_stays_as_it_is(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"notes\.txt cannot be the store of runs.*--store"):
        Store(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="cannot be the store of runs: no such table: runs"):
        Store(path)
    assert path.read_bytes() == before


def test_a_directory_and_a_folder_that_cannot_be_made_are_refused(tmp_path):
    with pytest.raises(ValueError, match="it is a directory"):
        Store(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="its folder cannot be made"):
        Store(tmp_path / "file" / "runs.sqlite")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("name", ["runs.sqlite", "new.sqlite", "folder/new.sqlite"])
def test_a_place_that_may_not_be_written_is_refused(old, name):
    old.chmod(0o400)
    old.parent.chmod(0o500)
    try:
        with pytest.raises(ValueError, match="cannot be the store of runs"):
            Store(old.parent / name)
    finally:
        old.parent.chmod(0o700)


def test_two_processes_open_the_same_old_store_at_once(old):
    code = f"from k3scope.app.runs.run_store import Store; print(len(Store({str(old)!r})))"
    both = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in both] == [str(len(RUNS))] * 2

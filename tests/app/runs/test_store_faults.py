"""A store that cannot be opened says so in one sentence; one that cannot be written ends nothing."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from k3scope.app.runs import store_file
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store, StoreError
from k3scope.app.runs.runner import Runner
from k3scope.app.runs.store_schema import PAD
from k3scope.app.runs.uploads import sample

SPEC = RunSpec("m", "w", "kept")
BIG = bytes(range(256)) * 4096  # 1 MB
LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""
WRITE = """
import sys
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store
store = Store(sys.argv[1])
print("open", flush=True)
for i in range(10_000):
    store.put(RunSpec("m", "w", str(i), (str(i),)), {str(i): ("a.png", bytes(2**20))})
    print(i, flush=True)
"""


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


@contextmanager
def locked(path: Path):
    """Another process has all of the store to itself."""
    command = [sys.executable, "-c", LOCK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "locked\n"
        yield
        other.stdin.close()


def kept(path: Path) -> Path:
    """A store with one run in it, closed."""
    store = Store(path)
    store.put(SPEC, owners=["me"])
    store.close()
    return path


def test_a_run_is_not_kept_while_the_disk_is_full_and_is_when_there_is_room(small_disk, capsys):
    store = Store(kept(small_disk / "runs.sqlite"))
    other = RunSpec("m", "w", "other", ("big",))
    for _ in range(3):
        with pytest.raises(StoreError, match=r"^the disk is full$"):
            store.put(other, {"big": ("a.png", BIG)})
    assert store.get(other.id) is None
    assert store.get(SPEC.id) == SPEC
    assert capsys.readouterr().err.count("the disk is full") == 1  # said once, not once per run
    store.put(RunSpec("m", "w", "small"))
    assert len(store) == 2


def test_a_store_on_a_full_disk_is_refused_in_one_sentence(small_disk):
    (small_disk / "filler").write_bytes(bytes(2**20 - 4096))
    with pytest.raises(ValueError, match="cannot be the store of runs: the disk is full; name another"):
        Store(small_disk / "runs.sqlite")


@pytest.mark.parametrize("name", ["runs.sqlite", "new.sqlite", "folder/new.sqlite"])
def test_a_store_on_a_read_only_disk_is_refused_in_one_sentence(small_disk, name):
    kept(small_disk / "runs.sqlite")
    make_read_only(small_disk)
    with pytest.raises(ValueError, match="cannot be the store of runs: ") as refused:
        Store(small_disk / name)
    assert "\n" not in str(refused.value)


def test_a_disk_that_becomes_read_only_keeps_no_run_and_still_reads(small_disk):
    path = kept(small_disk / "runs.sqlite")
    store = Store(path)
    for connection in (store._db, store._reader):  # let go of the files, or the disk stays writable
        connection.close()
    make_read_only(small_disk)
    address = f"file:{path}?mode=ro&immutable=1"
    store._db, store._reader = (
        sqlite3.connect(address, uri=True, check_same_thread=False, isolation_level=None) for _ in range(2)
    )
    with pytest.raises(StoreError, match=r"^it may not be written$"):
        store.put(RunSpec("m", "w", "new"))
    assert store.get(SPEC.id) == SPEC


@pytest.mark.slow
def test_a_locked_store_keeps_no_run_after_two_seconds_and_still_reads(tmp_path):
    store = Store(kept(tmp_path / "runs.sqlite"))
    with locked(tmp_path / "runs.sqlite"):
        start = time.monotonic()
        with pytest.raises(StoreError, match=r"^another program has locked it$"):
            store.put(RunSpec("m", "w", "new"))
        assert 1.5 < time.monotonic() - start < 4
        with pytest.raises(StoreError, match="locked"):
            store.forget("me")
        assert store.get(SPEC.id) == SPEC
    store.put(RunSpec("m", "w", "new"))
    assert len(store) == 2


@pytest.mark.slow
def test_a_store_locked_by_another_program_opens(tmp_path, capsys):
    path = kept(tmp_path / "runs.sqlite")
    with locked(path):
        assert Store(path).get(SPEC.id) == SPEC
    assert "another program has locked it" in capsys.readouterr().err


def header_gone(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xa5" * 90)


def middle_gone(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))


def end_gone(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


DAMAGES = [header_gone, middle_gone, end_gone]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_set_aside_and_a_new_one_begun(tmp_path, damage):
    path = kept(tmp_path / "mine.sqlite")
    damage(path)
    damaged = path.read_bytes()
    store = Store(path, mend=True)
    aside = re.search(r"set aside as (\S+),", store.set_aside)[1]
    assert re.fullmatch(rf"{path}\.corrupt-\d{{8}}-\d{{6}}", aside)
    assert Path(aside).read_bytes() == damaged
    assert store.get(SPEC.id) is None
    store.put(SPEC)
    store.close()
    assert Store(path, mend=True).set_aside == ""
    assert Store(path).get(SPEC.id) == SPEC


def test_the_log_of_a_damaged_store_goes_with_it(tmp_path):
    path = tmp_path / "mine.sqlite"
    store = Store(path)
    store.put(SPEC)
    log = (tmp_path / "mine.sqlite-wal").read_bytes()
    header_gone(path)
    aside = re.search(r"set aside as (\S+),", Store(path, mend=True).set_aside)[1]
    assert Path(aside + "-wal").read_bytes() == log


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_refused_where_it_is_not_to_be_mended(tmp_path, damage):
    path = kept(tmp_path / "mine.sqlite")
    damage(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="cannot be the store of runs: "):
        Store(path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.sqlite"]
    assert path.read_bytes() == before


def test_whatever_lies_at_our_own_place_is_set_aside(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = store_file.default_path()
    path.parent.mkdir()
    for n in range(1, 4):
        path.write_bytes(os.urandom(5000))
        store = Store(path, mend=True)
        assert "it is not an SQLite file" in store.set_aside
        store.put(SPEC)
        store.close()
        assert len(list(path.parent.glob("runs.sqlite.corrupt-*"))) == n


NOT_OURS = {
    "notes.txt": b"CREATE TABLE runs (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, spec TEXT NOT NULL);\n"
    * 99,
    "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40,
    "short": b"x",
    "other.sqlite": store_file.HEADER + os.urandom(8000),
}


@pytest.mark.parametrize("name", NOT_OURS)
def test_a_file_of_yours_is_never_moved(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(NOT_OURS[name])
    with pytest.raises(ValueError, match="cannot be the store of runs: "):
        Store(path, mend=True)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert path.read_bytes() == NOT_OURS[name]


def test_a_damaged_database_of_another_program_is_never_moved(tmp_path):
    path = tmp_path / "other.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE recipes (name TEXT)")
    db.executemany("INSERT INTO recipes VALUES (?)", [("x" * 3000,)] * 9)
    db.commit()
    db.close()
    middle_gone(path)
    with pytest.raises(ValueError, match="cannot be the store of runs: no such table: runs"):
        Store(path, mend=True)
    assert [file.name for file in tmp_path.iterdir()] == ["other.sqlite"]


def test_a_link_to_a_damaged_store_stays_and_leads_to_the_new_one(tmp_path):
    (tmp_path / "far").mkdir()
    middle_gone(kept(tmp_path / "far" / "mine.sqlite"))
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "far" / "mine.sqlite")
    Store(tmp_path / "link.sqlite", mend=True).put(SPEC)
    assert (tmp_path / "link.sqlite").is_symlink()
    assert Store(tmp_path / "far" / "mine.sqlite").get(SPEC.id) == SPEC


def test_damage_met_while_running_raises_only_what_is_ours(tmp_path, capsys):
    store = Store(tmp_path / "runs.sqlite")
    for i in range(200):
        store.put(RunSpec("m", "w", str(i)))
    store_file.erase(store._db)
    middle_gone(tmp_path / "runs.sqlite")
    for connection in (store._db, store._reader):  # what is in their caches was read before
        connection.execute("PRAGMA cache_size = 0")
        connection.execute("PRAGMA shrink_memory")
    assert store.get(RunSpec("m", "w", "7").id) is None
    assert store.image("aa") is None
    with pytest.raises(StoreError, match=r"^the file is damaged$"):
        store.put(RunSpec("m", "w", "new"))
    with pytest.raises(StoreError, match=r"^the file is damaged$"):
        store.forget("me")
    assert list(store.runs()) == []
    assert "the file is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", [b"\xff", b"[]", b"{}", b'{"model":1', b"null", SPEC.canonical[:-1].encode()]
)
def test_a_text_that_is_not_that_of_the_run_is_as_if_it_were_not_there(tmp_path, damage, capsys):
    path = kept(tmp_path / "runs.sqlite")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE runs SET spec = ?", (bytes(PAD) + damage,))
    store = Store(path)
    assert store.get(SPEC.id) is None
    assert list(store.runs()) == []
    assert "the file is damaged" in capsys.readouterr().err


def test_an_image_that_is_damaged_is_lost():
    store = Store()
    ring, spec = sample("ring"), RunSpec("m", "w", "x", ("a", "b"))
    store.put(spec, {"a": ("ring", ring.data), "b": ("ring", b"\xa5" * 99)})
    images = Runner(("k3-random",), store).images(spec).result(60)
    assert [image.data for image in images] == [ring.data]


@pytest.mark.slow
def test_a_server_killed_while_it_writes_loses_no_run_that_was_kept(tmp_path):
    path = tmp_path / "runs.sqlite"
    for delay in (0.02, 0.05, 0.11):
        command = [sys.executable, "-c", WRITE, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout.readline() == "open\n"
            time.sleep(delay)
            writer.kill()
            written = [int(line) for line in writer.stdout.read().split()]
        store = Store(path, mend=True)
        assert store.set_aside == ""
        for i in written:
            spec = RunSpec("m", "w", str(i), (str(i),))
            assert store.get(spec.id) == spec
            assert len(store.image(str(i))[1]) == 2**20
        store.close()

"""What the store keeps and for how long; what is removed is gone from the file, and the file shrinks."""

import os
import random
import sqlite3

import pytest

from k3scope.app.runs.retention import DAY, Retention
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store, StoreError

NOW = 1_800_000_000


class Clock:
    """A time that a test moves on."""

    now = NOW

    def __call__(self) -> float:
        return self.now


def spec(prompt, *images) -> RunSpec:
    return RunSpec("m", "w", prompt, images)


def bytes_on_disk(folder) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def raw(folder) -> bytes:
    """All that whoever gets hold of the files could read."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


def test_the_size_of_the_store_is_bounded_and_the_oldest_runs_go_with_their_images(tmp_path):
    store = Store(tmp_path / "runs.sqlite", Retention(megabytes=4))
    for i in range(30):
        store.put(spec(str(i), str(i)), {str(i): ("a.png", os.urandom(400_000))})
    kept = [i for i in range(30) if store.get(spec(str(i), str(i)).id)]
    assert kept == list(range(kept[0], 30))
    assert 8 <= len(kept) <= 10  # of 0.4 MB each
    assert [store.image(str(i)) is not None for i in range(30)] == [i in kept for i in range(30)]
    store.close()
    assert bytes_on_disk(tmp_path) <= 4 * 2**20


def test_the_file_shrinks_with_a_smaller_bound(tmp_path):
    store = Store(tmp_path / "runs.sqlite")
    for i in range(40):
        store.put(spec(str(i), str(i)), {str(i): ("a.png", os.urandom(200_000))})
    assert bytes_on_disk(tmp_path) > 8_000_000
    again = Store(tmp_path / "runs.sqlite", Retention(megabytes=1))
    assert 3 <= len(again) <= 5
    assert (tmp_path / "runs.sqlite").stat().st_size <= 2**20
    assert (tmp_path / "runs.sqlite-wal").stat().st_size == 0


def test_a_run_larger_than_the_whole_store_is_not_kept_and_costs_no_other(tmp_path):
    store = Store(tmp_path / "runs.sqlite", Retention(megabytes=1))
    store.put(spec("small"))
    with pytest.raises(StoreError, match="larger than the 1 MB of the whole store"):
        store.put(spec("large", "a"), {"a": ("a.png", bytes(2**20))})
    assert store.get(spec("small").id)
    assert store.get(spec("large", "a").id) is None


def test_a_run_goes_some_days_after_it_ran_last(tmp_path):
    clock = Clock()
    store = Store(tmp_path / "runs.sqlite", Retention(days=3), clock=clock)
    store.put(spec("old"))
    store.put(spec("again"))
    clock.now += 2 * DAY
    store.put(spec("again"))
    clock.now += DAY + 1
    assert store.get(spec("old").id) is None  # before anything was removed
    assert len(store) == 2
    store.put(spec("new"))
    assert [run.spec.prompt for run in store.runs()] == ["again", "new"]
    clock.now += 3 * DAY + 1
    assert len(Store(tmp_path / "runs.sqlite", Retention(days=3), clock=clock)) == 0


def test_runs_of_an_older_schema_are_as_old_as_the_migration(tmp_path):
    clock = Clock()
    store = Store(tmp_path / "runs.sqlite", clock=clock)
    store.put(spec("undated"))
    store.close()
    db = sqlite3.connect(tmp_path / "runs.sqlite", isolation_level=None)
    db.execute("UPDATE runs SET created = NULL")
    db.execute("UPDATE dated SET since = ?", (NOW,))
    db.close()
    for days, known in ((9, 1), (11, 0)):
        clock.now = NOW + days * DAY
        bounded = Store(tmp_path / "runs.sqlite", Retention(days=10), clock=clock)
        assert (bounded.get(spec("undated").id) is not None, len(bounded)) == (bool(known), known)
        bounded.close()


@pytest.mark.slow
def test_nothing_of_what_is_forgotten_can_be_read_in_any_file(tmp_path):
    """Among many others: SQLite moves rows when their neighbours go, and leaves copies in the gaps."""
    chance, store = random.Random(1), Store(tmp_path / "runs.sqlite")
    forgotten = set()
    for i in range(1500):
        owner, mark = chance.choice(["me", "you"]), f"secret-{i:05d}-".encode()
        text = mark.decode() + "x" * chance.choice([5, 50, 300, 900, 2500, 6000])
        image = mark + os.urandom(chance.choice([9, 3000, 9000]))
        files = {f"sha{i}": (f"{text[:12]}.png", image)} if i % 5 == 0 else {}
        store.put(spec(text, *files), files, [owner])
        forgotten |= {mark} if owner == "me" else set()
        if i % 500 == 499:
            assert len(store.forget("me")) > 200
            content = raw(tmp_path)
            assert [mark for mark in forgotten if mark in content] == []
    assert content.count(b"secret-") > 500
    assert len(store.forget("you")) > 500
    assert b"secret-" not in raw(tmp_path)
    assert bytes_on_disk(tmp_path) < 200_000


def test_what_goes_because_of_a_bound_cannot_be_read_either(tmp_path):
    store = Store(tmp_path / "runs.sqlite", Retention(runs=3))
    for i in range(40):
        store.put(spec(f"secret-{i:02d}-"))
    assert [i for i in range(40) if f"secret-{i:02d}-".encode() in raw(tmp_path)] == [37, 38, 39]


def test_a_store_of_schema_1_is_written_anew_without_copies(tmp_path):
    path = tmp_path / "runs.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE runs (n INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, spec TEXT NOT NULL)")
    db.execute("CREATE TABLE images (n INTEGER PRIMARY KEY, sha TEXT, name TEXT, bytes INTEGER, data BLOB)")
    old = spec("secret prompt", "aa")
    db.execute("INSERT INTO runs (id, spec) VALUES (?, ?)", (old.id, old.canonical))
    db.executemany(
        "INSERT INTO images (sha, name, bytes, data) VALUES (?, 'a', 6, ?)",
        [("aa", b"\0\xffzz\0s"), ("bb", b"secret of no run")],
    )
    db.commit()
    db.close()
    store = Store(path)
    assert (store.get(old.id), store.image("aa")) == (old, ("a", b"\0\xffzz\0s"))
    assert store.image("bb") is None
    assert b"secret of no run" not in raw(tmp_path)
    store.put(old, owners=["me"])
    assert store.forget("me") == [old.id]
    assert b"secret" not in raw(tmp_path)


def test_a_run_of_two_owners_stays_until_both_forget_it():
    store = Store()
    store.put(spec("both", "a"), {"a": ("a.png", b"shared")}, ["me"])
    store.put(spec("both", "a"), owners=["you"])
    store.put(spec("mine", "a"), owners=["me"])
    store.put(spec("nobody's"))
    assert store.forget("me") == [spec("mine", "a").id]
    assert store.image("a") == ("a.png", b"shared")
    assert store.forget("me") == []
    assert store.forget("you") == [spec("both", "a").id]
    assert store.image("a") is None
    assert [run.spec.prompt for run in store.runs()] == ["nobody's"]


def test_who_asks_for_a_run_that_is_kept_already_owns_it_too():
    store = Store()
    store.put(spec("both"), owners=["me"])
    store.own(spec("both").id, "other", if_nobody=True)
    store.own(spec("both").id, "you")
    store.own("unknown", "you")
    assert store.forget("me") == []
    assert store.forget("other") == []
    assert store.forget("you") == [spec("both").id]


def test_a_run_without_an_owner_belongs_to_who_opens_it():
    store = Store()
    store.put(spec("x"))
    store.own(spec("x").id, "me", if_nobody=True)
    store.own(spec("x").id, "you", if_nobody=True)
    assert store.forget("you") == []
    assert store.forget("me") == [spec("x").id]


def test_nobody_owns_what_was_put_with_an_empty_owner():
    store = Store()
    store.put(spec("x"), owners=[""])
    assert store.forget("") == []
    assert len(store) == 1

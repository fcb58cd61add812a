"""`k3scope store`: what is kept, listed without its prompts, removed and written out."""

import hashlib
import json
import sqlite3

import pytest

from k3scope.app.cli import main
from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store

PICTURE = b"\x89PNG of a passport"
SHA = hashlib.sha256(PICTURE).hexdigest()
SPECS = [RunSpec("k3-tiny", "w", "a \x1b[2J secret"), RunSpec("k3-random", "w", "二 \ud800", (SHA,))]
DAY = 24 * 60 * 60


@pytest.fixture
def path(tmp_path):
    """A store of two runs, the first of 2020."""
    days = iter([1_577_880_000, 1_577_880_000, 1_577_880_000])
    store = Store(tmp_path / "runs.sqlite", clock=lambda: next(days))
    store.put(SPECS[0], owners=["me"])
    store.close()
    store = Store(tmp_path / "runs.sqlite")
    store.put(SPECS[1], {SHA: ("passport.png", PICTURE)})
    store.close()
    return tmp_path / "runs.sqlite"


def store(path, *argv) -> int:
    return main(["store", *argv, "--store", str(path)])


def test_the_list_has_id_date_model_and_size_and_no_prompt(path, capsys):
    assert store(path, "list") == 0
    first, second, total = capsys.readouterr().out.splitlines()
    assert first.split() == [SPECS[0].id, "2020-01-01", first.split()[2], "k3-tiny", "13", "characters"]
    assert second.split()[0] == SPECS[1].id
    assert "1 image, 0.0 MB" in second
    assert total.startswith("2 runs, 0.1 MB in ")
    assert "secret" not in first


def test_prompts_are_listed_when_asked_for_and_move_no_cursor(path, capsys):
    assert store(path, "list", "--prompts") == 0
    out = capsys.readouterr().out
    assert r"'a \x1b[2J secret'" in out
    assert r"'二 \ud800'" in out
    assert "\x1b" not in out


def test_a_run_without_a_date_and_a_damaged_store_beside_it_are_listed(path, capsys):
    sqlite3.connect(path, isolation_level=None).execute("UPDATE runs SET created = NULL")
    aside = path.with_name("runs.sqlite.corrupt-20260101-000000")
    aside.write_bytes(bytes(3 * 2**20))
    assert store(path, "list") == 0
    out = capsys.readouterr().out
    assert out.count("undated") == 2
    assert f"set aside because it was damaged: {aside}, 3.0 MB" in out


def test_runs_older_than_some_days_are_removed(path, capsys):
    assert store(path, "prune", "--older-than", "30") == 0
    assert capsys.readouterr().out.startswith("1 run removed, 1 left; ")
    assert b"secret" not in b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert Store(path).get(SPECS[1].id) == SPECS[1]


def test_runs_are_removed_until_the_store_is_small_enough(path, capsys):
    kept = Store(path)
    for i in range(30):
        kept.put(RunSpec("m", "w", str(i), (str(i),)), {str(i): ("a.png", bytes(100_000))})
    assert store(path, "prune", "--to-size", "1") == 0
    out = capsys.readouterr().out
    assert int(out.split()[0]) + len(kept) == 32
    assert out.endswith("1.0 MB now\n") or out.endswith("0.9 MB now\n")
    assert 7 <= len(kept) <= 9
    assert kept.get(RunSpec("m", "w", "29", ("29",)).id)


def test_all_runs_are_removed_only_with_yes(path, capsys):
    assert store(path, "prune", "--all") == 2
    assert "removes all 2 runs of" in capsys.readouterr().err
    assert store(path, "prune", "--all", "--yes") == 0
    assert capsys.readouterr().out.startswith("2 runs removed, 0 left; ")
    content = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"secret" not in content
    assert b"passport" not in content


def test_the_export_gives_every_run_back_and_its_images(path, tmp_path, capsys):
    assert (
        store(path, "export", "--out", str(tmp_path / "out.jsonl"), "--images", str(tmp_path / "images")) == 0
    )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line.pop("id") for line in lines] == [spec.id for spec in SPECS]
    assert lines[0].pop("created") == 1_577_880_000
    assert lines[1].pop("created") > 1_700_000_000
    read = [RunSpec(**{k: tuple(v) if isinstance(v, list) else v for k, v in line.items()}) for line in lines]
    assert read == SPECS
    assert [file.name for file in (tmp_path / "images").iterdir()] == [SHA]
    assert (tmp_path / "images" / SHA).read_bytes() == PICTURE
    assert store(path, "export") == 0
    assert capsys.readouterr().out == (tmp_path / "out.jsonl").read_text(encoding="utf-8")


def test_the_commands_work_beside_an_open_store(path, capsys):
    server = Store(path)
    assert store(path, "list") == 0
    assert store(path, "prune", "--older-than", "30") == 0
    server.put(RunSpec("m", "w", "new"))
    assert server.get(SPECS[0].id) is None
    assert len(server) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["prune"], "expected --older-than DAYS, --to-size MB or --all"),
        (["prune", "--older-than", "0"], "--older-than 0: expected at least 1"),
        (["prune", "--to-size", "-1"], "--to-size -1: expected at least 1"),
        (["export", "--out", "/no/such/folder/x"], "cannot write /no/such/folder/x"),
        (["export", "--images", "/dev/null/x"], "cannot write /dev/null"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(path, capsys, argv, sentence):
    assert store(path, *argv) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_store_that_is_not_there_is_not_made(tmp_path, capsys):
    assert store(tmp_path / "none", "list") == 2
    assert "there is no store of runs" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "argv",
    [["--store-size", "0"], ["--store-size", "9999999"], ["--keep-days", "-1"], ["--keep-days", "99999"]],
    ids=" ".join,
)
def test_bounds_that_are_none_are_refused(capsys, argv):
    assert main(["serve", *argv]) == 2
    assert f"{argv[0]} {argv[1]}: expected" in capsys.readouterr().err


@pytest.fixture
def served(monkeypatch):
    """Stores that `serve` would have served with."""
    from k3scope.app.page import server

    stores = []
    monkeypatch.setattr(server, "serve", lambda _options, store: stores.append(store))
    return stores


def test_serve_refuses_a_store_that_cannot_be_opened_in_one_sentence(tmp_path, served, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt", tmp_path / "notes.txt" / "runs.sqlite"):
        assert main(["serve", "--store", str(path)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"k3scope: {path} cannot be the store of runs: ")
        assert said.count("\n") == 1
    assert served == []
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_serve_says_that_a_damaged_store_is_set_aside_and_goes_on(path, served, capsys):
    path.write_bytes(path.read_bytes()[:8192] + b"\xa5" * 8192)
    assert main(["serve", "--store", str(path), "--keep-days", "7"]) == 0
    said = capsys.readouterr().err
    assert f"k3scope: {path} was damaged" in said
    assert "it is set aside as" in said
    assert said.count("\n") == 1
    assert len(served[0]) == 0
    assert served[0].bounds == Retention(512, 7)


def test_serve_keeps_runs_in_memory_when_asked_to(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--store", "memory"]) == 0
    assert served[0].in_memory
    assert served[0].bounds == Retention(64)
    assert list(tmp_path.iterdir()) == []

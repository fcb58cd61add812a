"""What README and docs show of the benchmarks is what their results files hold."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from k3scope.assets import IMAGES

RESULTS = Path(__file__).parent / "results"
NAMED = [
    "kda H4 d32 T2048",
    "kda H8 d64 T512",
    "kda H16 d128 T512",
    "moe E16 n1",
    "moe E896 n1",
    "moe E896 n128",
]


@pytest.fixture
def rows():
    return json.loads((RESULTS / "cpu.json").read_text())["rows"]


def test_the_picture_of_the_ratios_is_drawn_from_the_results(rows, monkeypatch):
    monkeypatch.syspath_prepend(str(RESULTS.parent))
    assert (IMAGES / "kernels.svg").read_text() == import_module("draw").draw(rows)


@pytest.mark.parametrize("case", NAMED)
def test_every_case_has_our_paths_and_peers_that_agree_with_float64(rows, case):
    found = {row["impl"]: row for row in rows if row["case"] == case}
    assert "cpp" in found
    assert len(found) >= 4
    assert all(row["cpu_ms"] > 0 and row["rel_error"] < 1e-5 for row in found.values())
    assert found["cpp"]["cpu_ms"] == min(row["cpu_ms"] for row in found.values())


def test_the_page_on_load_follows_from_its_results(monkeypatch):
    monkeypatch.syspath_prepend(str(RESULTS.parent))
    documents = import_module("load_report").documents()
    assert {path.name for path in documents} >= {"load.md", "load.svg"}
    assert {path.name for path, text in documents.items() if path.read_text() != text} == set()


def test_the_load_begins_with_one_visitor_and_more_have_every_act():
    first, *rows = json.loads((RESULTS / "load.json").read_text())["rows"]
    assert [first["visitors"], *(row["visitors"] for row in rows)] == [1, 10, 30, 100, 200]
    for row in rows:
        for act in ("open", "click", "run", "first token"):
            assert 0 < row[f"{act} p50 s"] <= row[f"{act} p95 s"] <= row[f"{act} worst s"]

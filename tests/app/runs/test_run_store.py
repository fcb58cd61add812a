"""The store of run specs."""

import threading

import pytest

from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_spec import RunSpec
from k3scope.app.runs.run_store import Store

PROMPTS = [
    "",
    "123",
    "true",
    '{"a":1}',
    "line\nline",
    "你好 👩‍👩‍👧",
    "\ud800 lone",
    "<img src=x onerror=alert(1)>",
]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_prompt_survives_reopening(tmp_path, prompt):
    spec = RunSpec("k3-random", "0123456789ab", prompt)
    first = Store(tmp_path / "deep" / "runs.sqlite")
    first.put(spec)
    first.close()
    assert Store(tmp_path / "deep" / "runs.sqlite").get(spec.id) == spec


def test_an_unknown_id_is_none():
    assert Store().get("aaaaaaaaaaaa") is None


def test_an_id_is_twelve_base32_characters_and_depends_on_every_field():
    spec = RunSpec("k3-random", "0123456789ab", "hello")
    assert spec.id == "3s44swnttgy5"  # a link of today must work tomorrow
    others = [
        RunSpec("other", "0123456789ab", "hello"),
        RunSpec("k3-random", "0123456789ac", "hello"),
        RunSpec("k3-random", "0123456789ab", "hello "),
    ]
    assert len({s.id for s in [spec, *others]}) == 4


def test_the_oldest_go_first_and_a_repeated_one_is_kept():
    store = Store(bounds=Retention(runs=3))
    specs = [RunSpec("m", "w", str(i)) for i in range(5)]
    for spec in [specs[0], specs[1], specs[2], specs[0], specs[3], specs[4]]:
        store.put(spec)
    assert [store.get(s.id) is not None for s in specs] == [True, False, False, True, True]


def test_threads_may_write_at_once(tmp_path):
    store = Store(tmp_path / "runs.sqlite")

    def write(n):
        for i in range(20):
            store.put(RunSpec("m", "w", f"{n} {i}"))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 80


def test_two_stores_of_one_file_see_each_other(tmp_path):
    spec = RunSpec("m", "w", "x")
    one, two = Store(tmp_path / "runs.sqlite"), Store(tmp_path / "runs.sqlite")
    one.put(spec)
    assert two.get(spec.id) == spec


def test_images_are_kept_as_long_as_a_run_that_has_them(tmp_path):
    store = Store(tmp_path / "runs.sqlite", Retention(runs=2))

    def put(prompt, *shas):
        store.put(RunSpec("m", "w", prompt, shas), {sha: (f"{sha}.png", sha.encode() * 10) for sha in shas})

    put("first", "a", "b")
    put("second", "b")
    put("third", "c")
    assert store.image("a") is None
    assert store.image("b") == ("b.png", b"b" * 10)
    again = Store(tmp_path / "runs.sqlite")
    assert again.image("c") == ("c.png", b"c" * 10)
    put("fourth")
    assert (store.image("b"), again.image("b")) == (None, None)


def test_the_runs_are_listed_with_their_dates_and_the_size_of_their_images():
    store = Store(clock=lambda: 1_800_000_000.9)
    specs = [RunSpec("m", "w", str(i), ("a",) * (i == 1)) for i in range(450)]
    for spec in specs:
        store.put(spec, dict.fromkeys(spec.images, ("a.png", b"12345")))
    listed = list(store.runs())
    assert [run.spec for run in listed] == specs
    assert {run.created for run in listed} == {1_800_000_000}
    assert [run.image_bytes for run in listed[:3]] == [0, 5, 0]

"""The store of run specs."""

import threading

import pytest

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
    store = Store(kept=3)
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


def test_images_are_kept_with_their_runs_and_the_oldest_go_first(tmp_path):
    store = Store(tmp_path / "runs.sqlite", kept_bytes=25)

    def put(*shas):
        store.put(RunSpec("m", "w", "x", shas), {sha: (f"{sha}.png", sha.encode() * 10) for sha in shas})

    put("a")
    put("b")
    put("a")  # run again: the younger one now
    put("c")
    assert store.image("b") is None
    assert store.image("a") == ("a.png", b"a" * 10)
    again = Store(tmp_path / "runs.sqlite")
    assert again.image("c") == ("c.png", b"c" * 10)
    assert again.get(RunSpec("m", "w", "x", ("b",)).id).images == ("b",)  # the run itself is still known

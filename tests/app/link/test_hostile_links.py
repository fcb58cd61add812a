"""Links made to break the page: whatever a key holds, it is read or refused with a sentence, and at once."""

import time
from urllib.parse import quote

import pytest

from k3scope.app.link import query
from k3scope.app.link.fields import FIELDS
from k3scope.app.page.page import link_targets

VALUES = {
    "nested": quote("[" * 1900),
    "nested objects": quote('{"a":' * 300),
    "list": quote("[1,2,3]"),
    "object": quote('{"what":"head"}'),
    "huge number": "9" * 5000,
    "infinite": "1e999",
    "NUL": "%00%00",
    "surrogate": "%ED%A0%80",
    "60 KB": "a" * 60_000,
    "names": "kda," * 15_000,
}
SOON_S = 1


@pytest.fixture(scope="module")
def targets():
    return link_targets()


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", [f.key for f in FIELDS])
def test_any_value_is_read_or_refused_at_once(targets, key, value):
    start = time.process_time()
    link = query.parse(f"?{key}={VALUES[value]}", targets)
    assert time.process_time() - start < SOON_S
    field = next(f for f in FIELDS if f.key == key)
    default = list(field.default) if isinstance(field.default, tuple) else field.default
    assert not link.problems or link.values[field.name] == default
    assert all(len(problem) < 3000 for problem in link.problems)


@pytest.mark.parametrize("key", [f.key for f in FIELDS])
def test_a_key_repeated_a_thousand_times_is_read_once(targets, key):
    link = query.parse("?" + "&".join([f"{key}=x"] * 1000), targets)
    assert len(link.problems) <= 1


def test_of_a_query_of_megabytes_no_more_is_read_than_its_beginning(targets):
    start = time.process_time()
    link = query.parse("?view=cost&" + "x=y&" * 500_000 + "tab=code", targets)
    after = query.parse_update("tab=code&prompt=" + "a" * 2**21, targets, link.values)
    assert time.process_time() - start < SOON_S
    assert link.values["view"] == "cost"
    assert link.values["tab"] == "overview"
    assert link.unknown == ()
    assert after["tab"] == "code"
    assert "prompt" not in after
    assert query.TOO_LONG in link.problems
    assert query.TOO_LONG in after["problems"]

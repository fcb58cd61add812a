"""A link is read with the defaults of its own version and written with those of the current one."""

import re
from dataclasses import replace

import pytest

from k3scope.app.link import fields, query
from k3scope.app.link.fields import LinkTargets
from k3scope.assets import TEMPLATES

TARGETS = LinkTargets(
    models=("kimi-k3", "k3-tiny"),
    blocks={"kimi-k3": frozenset({"kda", "mla"})},
    groups=frozenset({"decoder_layer", "kda", "mla", "latent_moe"}),
)
NEW = {"open": ("kimi_k3", "mla"), "detail_level": "line", "T": 4096}  # defaults of the second version here
OLD = {name: fields.DEFAULTS[name] for name in NEW}
UNVERSIONED = "this link is from another version of k3scope"


@pytest.fixture
def version_2(monkeypatch):
    changed = tuple(replace(f, default=NEW.get(f.name, f.default)) for f in fields.FIELDS)
    monkeypatch.setattr(fields, "FIELDS", changed)
    monkeypatch.setattr(fields, "FORMER_DEFAULTS", {1: OLD})
    monkeypatch.setattr(fields, "VERSION", 2)
    monkeypatch.setattr(fields, "DEFAULTS", fields.defaults())


@pytest.fixture
def version_3(version_2, monkeypatch):
    """Changes T once more, and what the second version left alone."""
    changed = tuple(
        replace(f, default={"T": 64, "tab": "code"}.get(f.name, f.default)) for f in fields.FIELDS
    )
    monkeypatch.setattr(fields, "FIELDS", changed)
    monkeypatch.setattr(fields, "FORMER_DEFAULTS", {1: OLD, 2: {"T": NEW["T"], "tab": "overview"}})
    monkeypatch.setattr(fields, "VERSION", 3)
    monkeypatch.setattr(fields, "DEFAULTS", fields.defaults())


def changed(search: str) -> dict:
    """The fields whose default has changed, as a link gives them."""
    return {name: query.parse(search, TARGETS).values[name] for name in NEW}


def lists(values: dict) -> dict:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def test_every_older_version_has_its_row():
    assert set(fields.FORMER_DEFAULTS) == set(range(1, fields.VERSION))
    names = {f.name for f in fields.FIELDS}
    assert all(set(row) <= names for row in fields.FORMER_DEFAULTS.values())


@pytest.mark.usefixtures("version_2")
@pytest.mark.parametrize("search", ["?select=kda", "?select=kda&v=1", "?v=1", "?v=1&select=kda&theme=dark"])
def test_a_link_of_version_1_opens_what_version_1_opened(search):
    assert changed(search) == lists(OLD)
    assert not query.parse(search, TARGETS).problems


@pytest.mark.usefixtures("version_2")
@pytest.mark.parametrize("search", ["", "?", "?embed=1", "?utm_source=mail&flag", "?v=2", "?select=kda&v=2"])
def test_the_bare_address_and_a_new_link_open_what_opens_now(search):
    assert changed(search) == lists(NEW)
    assert not query.parse(search, TARGETS).problems


@pytest.mark.usefixtures("version_2")
def test_what_a_link_names_counts_whatever_its_version():
    assert changed("?open=kda&depth=derivation&T=5&v=1") == changed("?open=kda&depth=derivation&T=5&v=2")
    assert changed("?open=kda&T=5") == {"open": ["kda"], "detail_level": "engineer", "T": 5}


@pytest.mark.usefixtures("version_2")
def test_the_state_of_an_old_link_is_written_as_a_new_link():
    old = query.parse("?select=kda", TARGETS)
    written = query.format(old.values)
    assert written == "?select=kda&open=decoder_layer,kda,latent_moe&T=17&depth=engineer&v=2"
    assert query.parse(written, TARGETS).values == old.values
    new = query.parse(
        "?open=kimi_k3,mla&T=4096&depth=line", LinkTargets(("kimi-k3",), groups=frozenset(NEW["open"]))
    )
    assert query.format(new.values) == ""


@pytest.mark.usefixtures("version_3")
def test_a_version_in_between_has_defaults_of_its_own():
    assert changed("?layer=1&v=1") == lists(OLD)
    assert changed("?layer=1&v=2") == lists(NEW)
    assert changed("?layer=1&v=3") == lists(NEW | {"T": 64})
    tabs = [query.parse(f"?layer=1&v={v}", TARGETS).values["tab"] for v in (1, 2, 3)]
    assert tabs == ["overview", "overview", "code"]
    for search in ("?layer=1", "?layer=1&v=2", "?layer=1&v=3"):
        values = query.parse(search, TARGETS).values
        assert query.parse(query.format(values), TARGETS).values == values


@pytest.mark.usefixtures("version_2")
def test_a_link_of_a_version_to_come_is_read_with_the_defaults_of_now_and_said():
    link = query.parse("?v=99&layer=2", TARGETS)
    assert link.problems == (f"“v=99” could not be read: {UNVERSIONED}.",)
    assert link.values == lists(fields.DEFAULTS) | {"layer": 2}
    assert query.format(link.values) == "?layer=2&v=2"


@pytest.mark.parametrize(
    "version",
    ["v=0", "v=x", "v=", "v", "v=1.0", "v=01", "v=-1", "v=2", "v=%31", "v=" + "9" * 5000, "v=%FF", "v=٣"],
)
def test_a_version_that_is_none_is_said(version):
    link = query.parse(f"?{version}&layer=2", TARGETS)
    assert len(link.problems) == 1
    assert link.problems[0].endswith(f" could not be read: {UNVERSIONED}.")
    assert len(link.problems[0]) < 200
    assert link.values["layer"] == 2


def test_two_versions_are_said_and_one_that_is_repeated_is_that_one():
    for search in ("?v=1&v=2&layer=2", "?v=2&layer=2&v=1", "?v=&v=1&layer=2"):
        link = query.parse(search, TARGETS)
        assert "could not be read: the link names more than one version." in link.problems[0]
        assert link.values["layer"] == 2
    assert not query.parse("?v=1&layer=2&v=1", TARGETS).problems


def test_only_a_link_that_says_something_has_a_version():
    assert query.format(fields.DEFAULTS) == ""
    assert query.format(fields.DEFAULTS, ("embed=1",)) == "?embed=1"
    assert query.format(fields.DEFAULTS | {"layer": 2}, ("embed=1",)) == "?layer=2&v=1&embed=1"


def test_links_in_the_templates_have_a_version():
    hrefs = [
        href for path in TEMPLATES.glob("*.html") for href in re.findall(r'href="\?(.*?)"', path.read_text())
    ]
    assert len(hrefs) >= 7
    assert all(href.endswith("&{{ link_version }}") for href in hrefs)


def test_a_part_of_a_link_has_no_version():
    values = fields.DEFAULTS | {"T": 5}
    assert query.parse_update("layer=2&v=99", TARGETS, values) == {"layer": 2, "problems": []}


def test_a_key_that_got_a_better_name_is_still_read(monkeypatch):
    renamed = tuple(replace(f, key="ids", aliases=("more",)) if f.key == "more" else f for f in fields.FIELDS)
    monkeypatch.setattr(fields, "FIELDS", renamed)
    for key in ("more", "ids"):
        assert query.parse(f"?{key}=7,8", TARGETS).values["generated_ids"] == [7, 8]
    assert query.format(fields.DEFAULTS | {"generated_ids": [7, 8]}) == "?ids=7,8&v=1"
    assert query.parse_update("more=9", TARGETS, fields.DEFAULTS)["generated_ids"] == [9]
    assert "“more=a” could not be read" in query.parse("?more=a", TARGETS).problems[0]

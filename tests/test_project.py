"""What stands around the code: names at the top, licence, citation, changelog, what the texts point at."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import k3scope

ROOT = Path(__file__).parents[1]
AT_THE_TOP = {
    "app", "assets", "diagrams", "docs", "model", "tests", "pyproject.toml", "Makefile", "README.md",
    "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff",
}  # fmt: skip
TEXTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_nothing_else_stands_at_the_top():
    if not (ROOT / ".git").exists():
        pytest.skip("no git here, as in a source distribution")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {path.split("/")[0] for path in listed.splitlines()}
    assert {name for name in names if not name.startswith(".")} <= AT_THE_TOP
    assert {"LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", ".editorconfig"} <= names


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["cff-version"] == "1.2.0"
    assert (citation["version"], citation["license"]) == (k3scope.__version__, "Apache-2.0")
    assert citation["authors"] == [{"name": "The k3scope authors"}]


def test_the_changelog_has_this_version_and_the_links():
    headings = re.findall(r"^## (.*)", read("CHANGELOG.md"), re.M)
    assert "Links" in headings
    assert any(heading.startswith(k3scope.__version__) for heading in headings)


def test_the_changelog_names_the_versions_of_links_and_of_the_store():
    from k3scope.app.link import fields
    from k3scope.app.runs import store_schema

    links = read("CHANGELOG.md").split("## Links")[1].split("\n## ")[0]
    of_links, of_store = (
        [int(n) for n in re.findall(r"^\| (\d+) \|", table, re.M)]
        for table in links.split("| schema of the store")
    )
    assert of_links == list(range(1, fields.VERSION + 1))
    assert of_store == list(range(1, store_schema.SCHEMA + 1))


@pytest.mark.parametrize("package", ["panel", "bokeh", "torch"])
def test_what_is_replaced_or_measured_has_an_upper_bound(package):
    (bounds,) = [line for line in PROJECT["dependencies"] if re.match(rf"{package}\b", line)]
    assert re.search(r">=[\d.]+,<[\d.]+", bounds)


def test_the_package_says_what_it_is():
    assert "Apache-2.0" in PROJECT["license"]
    assert PROJECT["authors"] == [{"name": "The k3scope authors"}]
    assert {"LICENSE", "assets/fonts/LICENSE"} <= set(PROJECT["license-files"])
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])
    assert "urls" not in PROJECT, "there are no public addresses yet"


@pytest.mark.parametrize("name", TEXTS)
def test_the_make_targets_and_links_of_the_texts_exist(name):
    text = read(name)
    targets = set(re.findall(r"`make ([a-z]+)|^make ([a-z]+)", text, re.M))
    missing = {a or b for a, b in targets} - set(re.findall(r"^([a-z]+):", MAKEFILE, re.M))
    assert missing == set()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not link.startswith("http")]
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize("name", TEXTS)
def test_the_paths_that_the_texts_name_exist(name):
    """`model/kda.py` and the like; a path may be told from app/, where it is spoken of."""
    paths = re.findall(r"`([a-z_./]+(?:/|\.(?:py|yaml|md|css|js)))`", read(name))
    homes = (
        ROOT,
        ROOT / "app",
        ROOT / "app" / "runs",
        ROOT / "app" / "page",
        ROOT / "model",
        ROOT / "diagrams",
    )
    homes += (ROOT / "assets", ROOT / "tests")
    yours = {"model.py"}  # the changelog speaks of a user's own
    missing = [path for path in paths if not any((home / path).exists() for home in homes)]
    assert set(missing) <= yours


def test_the_python_of_the_readme_runs():
    (sample,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.S)
    exec(compile(sample, "README.md", "exec"), {})


def test_every_command_of_the_readme_is_one():
    from k3scope.app.cli import COMMANDS

    named = set(re.findall(r"^k3scope ([a-z-]+)", read("README.md"), re.M))
    assert named == set(COMMANDS)

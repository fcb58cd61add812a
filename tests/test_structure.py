"""The shape of the code itself: imports point down, nothing points back, every name has one meaning."""

import subprocess
from pathlib import Path

import pytest
import structure
from structure import RULES, Tree

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def tree() -> Tree:
    """All Python files of the folders that are installed."""
    files = [path for package in structure.PACKAGES for path in (ROOT / package).rglob("*.py")]
    return Tree({path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(tree, rule):
    assert rule(tree) == []


def test_every_entry_of_the_order_has_a_file(tree):
    assert structure.entries_without_a_file(tree) == []


def test_the_rules_see_every_file_of_the_repository(tree):
    if not (ROOT / ".git").exists():
        pytest.skip("no git here, as in a source distribution")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *structure.PACKAGES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    expected = {path for path in listed if path.endswith(".py") and (ROOT / path).exists()}
    assert set(tree.sources) == expected
    assert len(expected) > 200


def test_the_tests_stand_in_the_folders_of_what_they_test():
    folders = {path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")}
    mirrored = [folder for folder in folders if folder.parts and folder.parts[0] in structure.PACKAGES]
    assert len(mirrored) > 10
    assert [folder for folder in mirrored if not (ROOT / folder).is_dir()] == []


LOW, HIGH = "model/norm.py", "app/runs/worker.py"
# what is planted into an otherwise empty tree, and what the rule has to say of it
PLANTED = {
    "files_without_a_place": ({"model/strange/new.py": ""}, "model/strange/new.py belongs to no line"),
    "upward_imports": (
        {LOW: "def late():\n    from k3scope.app.runs import worker", HIGH: ""},
        "model/norm.py imports app/runs/worker.py",
    ),
    "sideways_imports": (
        {"app/page/lab/a.py": "from k3scope.app.page.dock.b import x", "app/page/dock/b.py": "x = 1"},
        "app/page/lab/a.py imports app/page/dock/b.py",
    ),
    "circles": (
        {
            "model/kda.py": "import k3scope.model.mla",
            "model/mla.py": "from k3scope.model import moe",
            "model/moe.py": "from k3scope.model.kda import x",
        },
        "model/kda.py, model/mla.py, model/moe.py",
    ),
    "libraries_elsewhere": ({HIGH: "from panel.io import document"}, "app/runs/worker.py imports panel"),
    "other_import_names": ({HIGH: "from model.kda import x"}, "imports 'model.kda'"),
    "repeated_names": ({LOW: "class Run: ...", HIGH: "class Run: ..."}, "class Run: app/runs/worker.py:1"),
    "long_files": ({LOW: "x = 1\n" * 301}, "model/norm.py has 301 lines"),
    "long_functions": ({LOW: "def f():\n" + "    x = 1\n" * 50}, "model/norm.py:1 f has 51 lines"),
}
MORE_PLANTED = [
    ("upward_imports", {"app/link/a.py": "import k3scope.app.page.kit.b", "app/page/kit/b.py": ""}),
    ("upward_imports", {HIGH: "from k3scope.app.page.kit import b", "app/page/kit/b.py": ""}),
    (
        "upward_imports",
        {"diagrams/facts/a.py": "from k3scope.diagrams.cost import b", "diagrams/cost/b.py": ""},
    ),
    ("upward_imports", {"model/measure/a.py": "from k3scope.model.runs.b import c", "model/runs/b.py": ""}),
    ("sideways_imports", {"model/kernels/a.py": "import k3scope.model.files.b", "model/files/b.py": ""}),
    ("libraries_elsewhere", {"diagrams/scene/a.py": "import param"}),
    ("libraries_elsewhere", {"app/commands/a.py": "import bokeh.plotting"}),
    ("libraries_elsewhere", {"assets/a.py": "import torch"}),
    ("other_import_names", {LOW: "from .kda import x"}),
    ("other_import_names", {LOW: "import assets"}),
    ("repeated_names", {"model/runs/lab.py": "", "app/page/lab/lab.py": ""}),
]


def test_every_rule_is_planted():
    assert set(PLANTED) == {rule.__name__ for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_names_what_breaks_it(rule):
    files, offence = PLANTED[rule.__name__]
    (found,) = rule(Tree(files))
    assert offence in found


@pytest.mark.parametrize(("name", "files"), MORE_PLANTED)
def test_what_breaks_a_rule_is_seen(name, files):
    assert len(getattr(structure, name)(Tree(files))) == 1


def test_a_command_may_be_called_as_what_it_runs():
    assert structure.repeated_names(Tree({"model/runs/lab.py": "", "app/commands/lab.py": ""})) == []

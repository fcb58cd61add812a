"""What is built and installed: one import name, every data file, no tests; a sdist that can be tested."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from email import message_from_string
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HOMES = PROJECT["tool"]["setuptools"]["package-dir"]  # import name -> folder
# pictures of the README, and what only the tools of a developer read
UNSHIPPED = {"assets/images/screenshot.png", "assets/images/kernels.svg"}
TOOLS = ("package.json", "package-lock.json", "tsconfig.json", "jsconfig.json", "eslint.config.", ".prettier")
OWN = {
    "model.py": "whose = 'mine'",
    "app/__init__.py": "whose = 'mine'",
    "diagrams.py": "whose = 'mine'",
    "assets/notes.txt": "",
    "script.py": """
import app, diagrams, model, assets
print(app.whose, diagrams.whose, model.whose, list(assets.__path__)[0].startswith(__file__[:-9]))
import k3scope
from k3scope import load, trace
print(k3scope.__file__, trace(load("k3-random"), [[72, 105]]).logits.shape[:2])
""",
}


def tracked() -> list[str]:
    """Files of the repository, also those that are not committed yet."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: there is no list of files to compare with")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [name for name in names if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A copy of the repository, with the wheel and the sdist in dist/."""
    tree = tmp_path_factory.mktemp("built")
    for name in tracked():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    build = "from setuptools import build_meta as b; b.build_wheel('dist'); b.build_sdist('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True)
    return tree


@pytest.fixture(scope="module")
def wheel(built) -> ZipFile:
    return ZipFile(next(built.glob("dist/*.whl")))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    """A folder with the wheel in it and nothing else."""
    target = tmp_path_factory.mktemp("installed")
    wheel = next(built.glob("dist/*.whl"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", target]
    subprocess.run([*pip, wheel], check=True, capture_output=True)
    return target


def python(installed: Path, cwd: Path, *argv: str) -> str:
    """Python with the wheel and the dependencies on its path; -S leaves out the editable install of here."""
    path = os.pathsep.join([str(installed), sysconfig.get_path("purelib")])
    done = subprocess.run(
        [sys.executable, "-S", *argv],
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def metadata(wheel: ZipFile, name: str) -> str:
    return wheel.read(next(n for n in wheel.namelist() if n.endswith(f".dist-info/{name}"))).decode()


def test_every_folder_of_code_is_listed():
    packages = set()
    for name, folder in HOMES.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            inside = init.parent.relative_to(ROOT / folder).parts
            packages.add(".".join((name, *inside)))
    packages.discard("k3scope.app.front")  # it is k3scope itself
    listed = PROJECT["tool"]["setuptools"]["packages"]
    assert set(listed) == packages
    assert listed == sorted(listed)


def test_what_is_replaced_in_dependencies_has_an_upper_bound():
    requirements = {r.name: r.specifier for r in map(Requirement, PROJECT["project"]["dependencies"])}
    for name, (allowed, refused) in {
        "panel": (["1.9.4", "1.9.9"], "1.10.0"),
        "bokeh": (["3.9.2", "3.9.9"], "3.10.0"),
        "torch": (["2.11.0", "2.13.0"], "2.15.0"),
    }.items():
        assert all(v in requirements[name] for v in [*allowed, version(name).partition("+")[0]])
        assert refused not in requirements[name]


@pytest.mark.slow
def test_the_wheel_takes_one_name_and_holds_no_tests(wheel):
    assert metadata(wheel, "top_level.txt").split() == ["k3scope"]
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"k3scope", next(t for t in tops if t.endswith(".dist-info"))}
    assert "k3scope/py.typed" in wheel.namelist()
    assert not [n for n in wheel.namelist() if n.split("/")[1] in ("front", "tests") or n.endswith(".pyc")]


@pytest.mark.slow
def test_the_wheel_holds_every_file_that_runs(wheel):
    longest_first = sorted(HOMES.items(), key=lambda item: -len(item[1]))
    expected = {}
    for name in tracked():
        home = next((h for h in longest_first if name.startswith(f"{h[1]}/")), None)
        if home and name not in UNSHIPPED and not Path(name).name.startswith(TOOLS):
            expected[home[0].replace(".", "/") + name.removeprefix(home[1])] = name
    shipped = {name for name in wheel.namelist() if name.startswith("k3scope/") and not name.endswith("/")}
    assert shipped == set(expected)
    assert len(shipped) > 400


@pytest.mark.slow
def test_the_metadata_is_whole_and_invents_no_address(wheel):
    found = message_from_string(metadata(wheel, "METADATA"))
    assert (found["Name"], found["Version"]) == ("k3scope", version("k3scope"))
    assert found["License-Expression"].startswith("Apache-2.0")
    assert "LICENSE" in found.get_all("License-File")
    assert found["Author"] == "The k3scope authors"
    assert found["Summary"]
    assert found["Keywords"]
    assert found.get_all("Classifier")
    assert found.get_all("Project-URL") is found["Home-page"] is found["Author-email"] is None


@pytest.mark.slow
def test_files_of_a_user_with_our_old_names_break_nothing(installed, tmp_path):
    for name, text in OWN.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    own, ours = python(installed, tmp_path, "script.py").splitlines()
    assert own == "mine mine mine True"
    assert ours == f"{installed / 'k3scope' / '__init__.py'} torch.Size([1, 2])"
    assert "5,453,500 parameters" in python(installed, tmp_path, "-m", "k3scope", "params", "k3-tiny")
    assert "runs here" in python(installed, tmp_path, str(installed / "bin" / "k3scope"), "doctor")


@pytest.mark.slow
def test_the_wheel_gives_none_of_the_general_names(installed, tmp_path):
    code = "from importlib.util import find_spec as f; print([n for n in %r if f(n)])"
    names = ["app", "model", "diagrams", "assets", "front", "tests"]
    assert python(installed, tmp_path, "-c", code % names) == "[]\n"


@pytest.mark.slow
def test_the_sdist_holds_the_tests_and_all_that_the_wheel_is_built_from(built):
    with tarfile.open(next(built.glob("dist/*.tar.gz"))) as archive:
        names = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    dotfiles = {name for name in tracked() if name.startswith(".")}
    assert {n for n in tracked() if n.split("/")[0] in ("tests", *HOMES.values())} <= names
    assert set(tracked()) - dotfiles <= names
    made = {"PKG-INFO", "setup.cfg", *(n for n in names if n.startswith("k3scope.egg-info/"))}
    assert names - set(tracked()) == made


@pytest.mark.slow
def test_the_wheel_of_the_sdist_is_the_same(built, wheel, tmp_path):
    with tarfile.open(next(built.glob("dist/*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    build = "from setuptools import build_meta as b; b.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=tree, check=True, capture_output=True)
    again = ZipFile(next(tree.glob("dist/*.whl")))
    assert {i.filename: i.CRC for i in again.infolist() if "dist-info" not in i.filename} == {
        i.filename: i.CRC for i in wheel.infolist() if "dist-info" not in i.filename
    }

"""The shape of the code itself: imports point down, nothing points back."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RANK = {"assets": 0, "model.kernels": 1, "model": 2, "diagrams": 3, "app": 4}
FORBIDDEN = {"model": {"panel", "bokeh", "param"}, "diagrams": {"panel", "bokeh", "param"}}
FILES = sorted(
    p for package in ("model", "diagrams", "app", "assets") for p in (ROOT / package).rglob("*.py")
)


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Every module a file imports, also inside functions, `from a import b` as both a and a.b."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rank(module: str) -> int | None:
    package = "model.kernels" if module.startswith("model.kernels") else module.split(".")[0]
    return RANK.get(package)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_point_down(path):
    own = rank(module_name(path))
    for module in imports(path):
        other = rank(module)
        # the kernels read nothing of the model but each other
        assert other is None or other <= own, f"{module_name(path)} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_only_app_knows_the_page(path):
    package = module_name(path).split(".")[0]
    roots = {module.split(".")[0] for module in imports(path)}
    assert not roots & FORBIDDEN.get(package, set())


def test_no_two_files_import_each_other():
    names = {module_name(p) for p in FILES}
    graph = {module_name(p): {m for m in imports(p) if m in names} - {module_name(p)} for p in FILES}
    pairs = [(a, b) for a in graph for b in graph[a] if a < b and a in graph[b]]
    # a package's front door re-exports its own files
    assert not [p for p in pairs if not any(b.startswith(a + ".") for a, b in (p, p[::-1]))]


def test_files_stay_short():
    long = {module_name(p): n for p in FILES if (n := len(p.read_text().splitlines())) > 300}
    assert not long

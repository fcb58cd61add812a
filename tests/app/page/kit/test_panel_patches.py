"""Another Panel or Bokeh says what breaks, before a page loses a change in silence."""

import warnings

import bokeh
import panel
import pytest
from panel.io import document as panel_document

from k3scope.app.page.kit import panel_patches


def test_the_installed_versions_are_the_tested_ones():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        panel_patches.check()


@pytest.mark.parametrize(("owner", "name"), panel_patches.NEEDED)
def test_a_name_that_is_gone_is_said_with_what_breaks_without_it(monkeypatch, owner, name):
    monkeypatch.setattr(
        panel_patches, "NEEDED", {(owner, name + "_renamed"): panel_patches.NEEDED[owner, name]}
    )
    with pytest.raises(
        RuntimeError, match=f"has no .*{name}_renamed: {panel_patches.NEEDED[owner, name + '_renamed']}"
    ):
        panel_patches.check()


@pytest.mark.parametrize("module", [panel, bokeh])
@pytest.mark.parametrize("version", ["1.10.0", "3.10.1", "2.0.0a1"])
def test_a_version_that_was_not_tested_warns(monkeypatch, module, version):
    monkeypatch.setattr(module, "__version__", version)
    with pytest.warns(UserWarning, match=f"private functions of {module.__name__}.*this is {version}"):
        panel_patches.check()


def test_the_patch_is_in_place():
    assert panel_document._dispatch_msgs.__module__ == panel_patches.__name__


def test_private_names_of_panel_and_bokeh_are_used_nowhere_else():
    """Every attribute of panel or bokeh that begins with an underscore stands in panel_patches.py."""
    import ast
    from pathlib import Path

    app = Path(panel_patches.__file__).parents[2]
    beside = []
    for path in app.rglob("*.py"):
        if path.name == "panel_patches.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("panel", "bokeh")):
                beside += [f"{path.name}: {a.name}" for a in node.names if a.name.startswith("_")]
            if (
                isinstance(node, ast.Attribute)
                and node.attr.startswith("_")
                and not node.attr.startswith("__")
            ):
                owner = ast.unparse(node.value)
                if owner.startswith(("pn.", "panel.", "bokeh.")):
                    beside.append(f"{path.name}: {owner}.{node.attr}")
    assert beside == []

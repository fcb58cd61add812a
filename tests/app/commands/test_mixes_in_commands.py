"""Every command takes every mix of layers: what it is about a part that is not there says so."""

import json

import pytest

from k3scope.app.cli import main
from k3scope.model.measure.observe import VIEWS
from tests.helpers.mixes import CHANGES, MIXES, save

pytestmark = pytest.mark.sweep
# view of the Lab -> whether a model has it
HAS = {
    "routing": lambda c: c.dense_layers < c.layers,
    "kda": lambda c: "kda" in c.kinds,
    "attention": lambda c: "mla" in c.kinds,
    "depth": lambda c: True,
    "lens": lambda c: True,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return save(CHANGES, tmp_path_factory.mktemp("mixes"))


@pytest.mark.parametrize("name", CHANGES)
def test_every_command_takes_the_mix(name, folders, tmp_path, capsys):
    folder, config = str(folders[name]), MIXES[name]
    for by in ("block", "layer", "tensor"):
        assert main(["params", folder, "--by", by, "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert rows
    assert main(["check", folder]) == 0
    assert main(["compare", folder, "kimi-k3"]) == 0
    for what, file in (("model", "a.svg"), ("ledger", "a.csv")):
        assert main(["export", what, "--model", folder, "--out", str(tmp_path / file)]) == 0
    assert main(["export", "--model", folder, "--open", "everything", "--out", str(tmp_path / "b.json")]) == 0
    assert main(["generate", folder, "--prompt", "Once", "--tokens", "2"]) == 0
    assert main(["trace", folder, "--prompt", "Once", "--out", str(tmp_path / "a.safetensors")]) == 0
    capsys.readouterr()
    for view in VIEWS:
        code = main(["lab", "Once", folder, "--view", view, "--out", str(tmp_path / f"{view}.svg")])
        assert code == (0 if HAS[view](config) else 2)
        if code:
            assert capsys.readouterr().err.endswith("no layer of this run has that\n")

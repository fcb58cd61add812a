"""The label over a listing names a file of the package, wherever the package is."""

import importlib.util
import inspect
from pathlib import Path

import pytest
from torch import nn

from k3scope import model as package
from k3scope.diagrams.facts import code_listing
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.model import kda
from k3scope.model.kernels import reference


@pytest.mark.parametrize(
    ("thing", "label"),
    [
        (kda.KimiDeltaAttention, "model/kda.py"),
        (reference.kda, "model/kernels/reference.py"),
        (nn.Linear, "torch.nn.modules.linear"),
    ],
)
def test_a_label_is_the_file_below_the_package_or_the_module_of_others(thing, label):
    assert code_listing.file_of(thing) == label


def test_the_label_is_the_same_where_the_package_is_installed(tmp_path):
    file = tmp_path / "site-packages" / "k3scope" / "model" / "kda.py"
    file.parent.mkdir(parents=True)
    file.write_text("class KimiDeltaAttention:\n    pass\n")
    spec = importlib.util.spec_from_file_location("k3scope.model.kda", file)
    installed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(installed)
    assert code_listing.file_of(installed.KimiDeltaAttention) == "model/kda.py"


def test_every_label_names_a_file_that_holds_its_text():
    root = Path(inspect.getfile(package)).parents[1]
    facts = Facts.of("k3-random")
    for block in facts.blocks:
        for listing in facts.block(block).listings:
            path = listing.label.split(" · ")[1]
            if not path.startswith("torch."):
                lines = {line.strip() for line in (root / path).read_text(encoding="utf-8").splitlines()}
                assert {line.strip() for line in listing.text.splitlines()} <= lines, listing.label


def test_a_label_says_how_the_block_uses_the_class():
    labels = [listing.label for listing in Facts.of("kimi-k3").block("kda_decay").listings]
    assert labels[0] == "KimiDeltaAttention · model/kda.py"

"""docs/checkpoints.md says what the code reads."""

import re
from pathlib import Path

import pytest

from k3scope.model import config_limits as limits
from k3scope.model.files import json_file, weight_index
from k3scope.model.quantization.quantization import KNOWN

TEXT = re.sub(
    r"\s+", " ", (Path(__file__).parents[1] / "docs" / "checkpoints.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_format_is_named(name):
    assert f"`{name}`" in TEXT


def test_the_limits_are_those_of_the_code():
    assert f"| layers, and heads | {limits.MOST_LAYERS:,} |" in TEXT
    assert limits.HEADS == limits.MOST_LAYERS
    assert f"| experts | {limits.EXPERTS:,} |" in TEXT
    assert f"| vocabulary | {limits.VOCABULARY:,} |" in TEXT
    assert f"| widths | {limits.WIDTH:,} |" in TEXT
    assert f"draws up to {limits.MOST_DRAWN} layers" in TEXT
    assert f"| the file | {limits.LARGEST_FILE // 2**20} MB, nested {json_file.DEEPEST} deep |" in TEXT
    files, index = weight_index.MOST_FILES, weight_index.LARGEST_INDEX // 2**20
    assert f"| files of a folder, and its index | {files:,}, and {index} MB |" in TEXT

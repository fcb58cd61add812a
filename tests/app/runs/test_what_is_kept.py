"""The text on what is kept says what the code does."""

import argparse
import re
from pathlib import Path

import pytest

from k3scope.app.cli import command_module
from k3scope.app.runs import ownership, retention, store_file
from k3scope.app.runs.retention import Retention
from k3scope.app.runs.run_spec import RunSpec

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "kept.md").read_text(encoding="utf-8")


def parser(command: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    command_module(command).arguments(made)
    return made


def test_the_bounds_are_those_of_the_code():
    assert Retention() == Retention(retention.STORE_MB, parser("serve").get_default("keep_days"), 20_000)
    assert f"| `--store-size MB` | {retention.STORE_MB}; in memory {retention.MEMORY_MB} |" in TEXT
    assert f"| `--keep-days N` | {Retention().days}: no bound |" in TEXT
    assert f"never more than {Retention().runs:,} runs" in TEXT
    assert f"over\n  {store_file.BUSY_MS // 1000} seconds" in TEXT
    size_help = next(a.help for a in parser("serve")._actions if a.dest == "store_size")
    assert f"default: {retention.STORE_MB}; in memory {retention.MEMORY_MB}" in size_help


def test_the_place_is_the_default_one(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert f"`{store_file.default_path()}`".replace(str(Path.home()), "~") in TEXT


def test_every_field_of_a_run_is_named():
    words = {
        "model": "model",
        "weights": "hash of its weights, config and tokenizer",
        "prompt": "prompt",
        "images": "its images",
        "interventions": "interventions",
        "generated_ids": "ids of generated tokens",
    }
    assert set(words) == set(RunSpec.__dataclass_fields__)
    assert [word for word in words.values() if word not in TEXT] == []


def test_the_browser_s_token_is_called_as_in_the_script():
    script = (ROOT / "assets" / "js" / "dock_kept.js").read_text(encoding="utf-8")
    assert re.search(r'OWNER_KEY = "(.*?)"', script)[1] == "k3scope-owner"
    assert "`k3scope-owner`" in TEXT
    assert "32 hex digits" in TEXT
    assert ownership.TOKEN.pattern == "[0-9a-f]{32}"


@pytest.mark.parametrize("line", re.findall(r"^k3scope store (.*?)(?:  |$)", TEXT, re.M))
def test_every_command_of_the_text_is_one(line):
    options = parser("store").parse_args(line.split())
    assert options.action == line.split()[0]


def test_every_option_of_the_commands_is_in_the_text():
    actions = parser("store")._subparsers._group_actions[0].choices
    options = {o for action in actions.values() for o in action._option_string_actions} - {"-h", "--help"}
    assert [option for option in sorted(options) if option not in TEXT] == []

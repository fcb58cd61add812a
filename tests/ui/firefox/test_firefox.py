"""Firefox, driven over WebDriver BiDi: `checks.mjs` goes through the page once and says what failed."""

import json
import subprocess
from pathlib import Path

import pytest
from deployment import absent, program

pytestmark = pytest.mark.sweep

HERE = Path(__file__).parent
CHECKS = (
    "the diagram is drawn",
    "a click selects a box",
    "keys move and select",
    "back returns",
    "a prompt runs",
    "the lab draws",
    "dark is dark",
    "files are saved",
    "a phone has no sideways scroll",
    "the console has no errors",
    "the content security policy refuses nothing",
)


@pytest.fixture(scope="module")
def failures(url, tmp_path_factory) -> dict[str, str | None]:
    """Why each check failed, None where it did not."""
    command = [program("node"), "checks.mjs", url, program("firefox-esr")]
    if not (HERE / "node_modules").is_dir():
        absent("no puppeteer-core (npm ci --prefix tests/ui/firefox)")
    command.append(str(tmp_path_factory.mktemp("downloads")))
    ended = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=420)
    assert ended.returncode == 0, ended.stderr
    reports = map(json.loads, ended.stdout.splitlines())
    return {report["name"]: report["failed"] for report in reports}


@pytest.mark.parametrize("check", CHECKS)
def test_firefox(failures, check):
    assert failures[check] is None


def test_every_check_is_looked_at(failures):
    assert set(failures) == set(CHECKS)

"""The files of docs/deploy before anything is served: the program that reads each finds no fault."""

import re
import subprocess
import sys

import pytest
from deployment import DEPLOY, PROXIES, SEVERAL, certificate, filled, program

CHECK = {"nginx": "-t", "haproxy": "-c"}
GUIDE = (DEPLOY.parent / "deploy.md").read_text(encoding="utf-8")
EXPOSURE = 1.5  # of systemd's scale of 0 to 10; under 2 is its best word, "OK"


def told(*command: str) -> str:
    """What a program writes. AssertionError with all of it when it ends in an error."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("servers", ["one server", "several"])
@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_takes_its_file(proxy, servers, tmp_path):
    more = SEVERAL[proxy] if servers == "several" else {}
    command = PROXIES[proxy](certificate(tmp_path), 7140, 7141, 7142, **more)
    said = told(*command, CHECK[proxy])
    assert not re.search("warn|alert", said, re.I), said


def unit(folder):
    """The unit with a program that is there, since systemd looks."""
    command = {"/opt/k3scope/bin/k3scope": sys.executable}
    return str(filled("k3scope.service", folder, command))


def test_systemd_takes_the_unit_without_a_warning(tmp_path):
    assert told(program("systemd-analyze"), "verify", unit(tmp_path)).strip() == ""


def test_the_unit_is_hardened(tmp_path):
    command = [program("systemd-analyze"), "security", "--offline=yes", f"--threshold={EXPOSURE * 10:.0f}"]
    said = told(*command, "--no-pager", unit(tmp_path))
    assert float(re.search(r"Overall exposure level.*: ([\d.]+)", said)[1]) <= EXPOSURE


def test_the_linter_of_dockerfiles_has_nothing_to_say():
    assert told(program("hadolint"), str(DEPLOY / "Dockerfile")) == ""


def test_every_file_is_explained_and_every_file_explained_is_there():
    names = set(re.findall(r"\]\(deploy/([\w.]+)\)", GUIDE))
    assert names == {path.name for path in DEPLOY.iterdir()}


def test_the_options_that_the_guide_and_the_files_name_are_those_of_serve():
    from argparse import ArgumentParser

    from k3scope.app.commands import serve

    parser = ArgumentParser()
    serve.arguments(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    table = GUIDE.split("## Options")[1].split("\n## ")[0]
    named = set(re.findall(r"`(--[a-z-]+)", table))
    for name in ("k3scope.service", "nginx.conf", "haproxy.cfg"):
        commands = re.findall(r"k3scope serve (.*(?:\\\n.*)?)", (DEPLOY / name).read_text())
        assert commands, name
        named |= set(re.findall(r"--[a-z-]+", " ".join(commands)))
    assert {"--prefix", "--allow-origin", "--host", "--store"} <= named
    assert named <= known


def test_all_files_serve_the_page_under_one_path_and_one_port():
    for name in ("k3scope.service", "nginx.conf", "haproxy.cfg", "Dockerfile"):
        text = (DEPLOY / name).read_text()
        assert re.search(r'--prefix("?,)? "?/k3', text), name
        assert re.search(r'--port("?,)? "?5006', text), name

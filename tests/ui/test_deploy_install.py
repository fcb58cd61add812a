"""What docs/deploy installs and what it forbids, as far as it goes without Docker and without a systemd."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from deployment import DEPLOY, program
from playwright.sync_api import expect
from server_process import ROOT, Server, free_port, wait_for

from k3scope.app.page.process_cost import process_tree

pytestmark = pytest.mark.sweep
INSTALL_S, START_S, BUILD_S = 900, 60, 200
# SQLite gives its files to the owner of the folder when it is root, which no server of the unit is
AS_ROOT_ONLY = {"fchown"}


@dataclass
class Image:
    """A Dockerfile whose lines are carried out in a folder: paths of the image lie under it."""

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Instruction and arguments of each line."""
        text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"))
        return [tuple(line.split(None, 1)) for line in text.replace("\\\n", " ").splitlines() if line.strip()]

    def here(self, text: str) -> str:
        for path in ("/opt/k3scope", "/data", "/src"):
            text = re.sub(rf"(?<![\w.]){path}\b", f"{self.folder}{path}", text)
        return text.replace("0.0.0.0", "127.0.0.1").replace("5006", str(self.port))

    def arguments(self, instruction: str) -> str:
        (text,) = [self.here(rest) for name, rest in self.lines if name == instruction]
        return text

    def copy_context(self) -> None:
        """What Dockerfile.dockerignore lets in."""
        ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        ignore = shutil.ignore_patterns(*(line[3:] for line in ignored if line.startswith("**/")))
        for name in (line[1:] for line in ignored if line.startswith("!")):
            to = self.folder / "src" / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, to, ignore=ignore)
            else:
                shutil.copy(ROOT / name, to)

    def build(self) -> None:
        """Its RUN lines, from the index that this machine has."""
        (self.folder / "opt").mkdir()
        self.copy_context()
        environment = dict(rest.split("=", 1) for name, rest in self.lines if name == "ARG" and "=" in rest)
        environment = os.environ | environment | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
        for name, rest in self.lines:
            if name == "RUN":
                command = self.here(rest)
                ended = subprocess.run(
                    command, shell=True, cwd=self.folder / "src", env=environment, text=True,
                    capture_output=True, timeout=INSTALL_S,
                )  # fmt: skip
                assert ended.returncode == 0, ended.stderr[-4000:]

    @property
    def environment(self) -> dict[str, str]:
        """Its ENV lines and nothing else: there is no compiler on the path."""
        pairs = [rest.split() for name, rest in self.lines if name == "ENV"]
        return {"PATH": "/nowhere"} | dict(self.here(pair).split("=", 1) for line in pairs for pair in line)

    def start(self) -> subprocess.Popen:
        command = json.loads(self.arguments("ENTRYPOINT")) + json.loads(self.arguments("CMD"))
        return subprocess.Popen(command, cwd=self.folder, env=self.environment)

    def is_healthy(self) -> bool:
        check = json.loads(self.arguments("HEALTHCHECK").split(" CMD ")[1])
        asked = subprocess.run(check, cwd=self.folder, env=self.environment, capture_output=True, timeout=20)
        return asked.returncode == 0


def test_the_lines_of_the_dockerfile_give_a_server_that_is_healthy(tmp_path):
    image = Image(tmp_path)
    image.build()
    assert not image.is_healthy()
    server = image.start()
    try:
        deadline = time.monotonic() + START_S
        while not image.is_healthy():
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert (tmp_path / "data" / "runs.sqlite").exists()
    finally:
        server.terminate()
        server.wait(20)
    assert not image.is_healthy()


def expanded(group: str) -> set[str]:
    """System calls of a group of systemd's, with those of the groups in it."""
    command = [program("systemd-analyze"), "--no-pager", "syscall-filter", group]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    names = {line.strip() for line in listed} - {""}
    calls = {name for name in names if name[0] not in "#@"}
    return calls.union(*(expanded(name) for name in names if name[0] == "@"))


def permitted() -> set[str]:
    """What the unit's lines leave."""
    lines = re.findall(r"^SystemCallFilter=(.*)", (DEPLOY / "k3scope.service").read_text(), re.M)
    allowed = set().union(*(expanded(line) for line in lines if line[0] != "~"))
    return allowed - set().union(*(expanded(line[1:]) for line in lines if line[0] == "~"))


def test_the_system_calls_of_a_server_are_those_that_the_unit_permits(context, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # the kernels are built, too
    counted, server = tmp_path / "calls", Server(tmp_path)
    command = [program("strace"), "-f", "-qq", "-c", "-o", str(counted), sys.executable, "-m", "k3scope"]
    command += ["serve", "--no-open", "--port", str(server.port), "--store", str(tmp_path / "runs.sqlite")]
    with (tmp_path / "server.log").open("w") as log:
        server.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    wait_for(server)
    page = context.new_page()
    page.goto(server.address + "?view=lab&with=k3-tiny&prompt=which%20calls")
    expect(page.get_by_test_id("run-status")).to_contain_text(" ms · ", timeout=BUILD_S * 1000)
    expect(page.get_by_test_id("run-status")).to_contain_text("C++")
    page.close()
    os.kill(process_tree(server.process.pid)[1], 15)
    server.process.wait(30)
    used = set(re.findall(r"^ *[\d.]+ .* (\w+)$", counted.read_text(), re.M)) - {"total"}
    assert {"execve", "setpriority", "prlimit64", "mmap"} <= used
    assert used - permitted() - AS_ROOT_ONLY == set()

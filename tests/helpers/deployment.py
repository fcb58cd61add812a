"""The files of docs/deploy with the names and ports of this machine, and the proxies that run from them."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

DEPLOY = Path(__file__).parents[2] / "docs" / "deploy"
START_S = 15


def absent(what: str) -> NoReturn:
    """Skip a test for want of what CI installs; there it fails."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}: CI installs it")
    pytest.skip(what)


def program(name: str) -> str:
    """Full path of a program; a skip where it is not installed."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin:{sys.prefix}/bin")
    return path or absent(f"no {name} on the path")


def certificate(folder: Path) -> Path:
    """The folder, with a certificate for localhost that nobody trusts, named as in docs/deploy."""
    whole, key = folder / "fullchain.pem", folder / "privkey.pem"
    command = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-keyout", str(key), "-out", str(whole)]
    subprocess.run(command, check=True, capture_output=True)
    (folder / "fullchain-and-key.pem").write_text(whole.read_text() + key.read_text())
    return folder


def filled(name: str, folder: Path, replacements: dict[str, str]) -> Path:
    """A file of docs/deploy in `folder` with other names; each has to be there."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    for old, new in replacements.items():
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def nginx(folder: Path, plain: int, tls: int, behind: int, **more: str) -> list[str]:
    """Command of an nginx of this machine; `folder` has the certificate and takes all it writes."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    scratch = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    names = {
        "/etc/ssl/k3scope": str(folder),
        "/run/nginx.pid": f"{folder}/nginx.pid",
        "/var/log/nginx/error.log": f"{folder}/nginx.log",
        "user www-data;": "user root;" if os.getuid() == 0 else "",
        "http {": "http { " + scratch,
        "listen [::]:80;": "",
        "listen [::]:443 ssl;": "",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl;": f"listen 127.0.0.1:{tls} ssl;",
        "https://k3.example$": f"https://localhost:{tls}$",
        "server_name k3.example;": "server_name localhost;",
        "127.0.0.1:5006": f"127.0.0.1:{behind}",
    }
    file = filled("nginx.conf", folder, more | names)
    return [program("nginx"), "-e", f"{folder}/nginx.log", "-c", str(file), "-g", "daemon off;"]


def haproxy(folder: Path, plain: int, tls: int, behind: int, **more: str) -> list[str]:
    """As `nginx`."""
    names = {
        "/etc/ssl/k3scope": str(folder),
        "bind :80": f"bind 127.0.0.1:{plain}",
        "bind :443": f"bind 127.0.0.1:{tls}",
        "127.0.0.1:5006": f"127.0.0.1:{behind}",
    }
    return [program("haproxy"), "-f", str(filled("haproxy.cfg", folder, more | names))]


PROXIES = {"nginx": nginx, "haproxy": haproxy}
# what is a comment in the files until there are several servers
SEVERAL = {
    "nginx": {"# ip_hash;": "ip_hash;", "# server 127.0.0.1:5007;": "server 127.0.0.1:5007;"},
    "haproxy": {"# cookie K3SCOPE": "cookie K3SCOPE", "# server two": "server two"},
}


@contextmanager
def running(command: list[str], plain: int, log: Path) -> Iterator[None]:
    """A proxy until the block ends. RuntimeError with what it wrote when it does not answer."""
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_S
        while not _answers(plain):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} did not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True

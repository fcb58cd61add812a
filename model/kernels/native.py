"""Builds the C++ kernels on first use: one library per source, compiler and processor, cached per user."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

COMPILERS = ("g++", "clang++", "c++")
# no -ffast-math: it would make the process flush tiny numbers to zero
FLAGS = ("-O3", "-march=native", "-std=c++20", "-shared", "-fPIC", "-pthread", "-Wno-psabi")


@cache
def compiler() -> str | None:
    """Full path of the C++ compiler: the one CXX names, else the first that is installed."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else COMPILERS
    return next(filter(None, map(shutil.which, names)), None)


@cache
def library(name: str) -> ctypes.CDLL | None:
    """The built `name`.cpp; None where it cannot be built; `trouble` gives the reason."""
    try:
        return ctypes.CDLL(str(_build(Path(__file__).with_name(f"{name}.cpp"))))
    except (OSError, subprocess.SubprocessError) as error:
        _trouble[name] = getattr(error, "stderr", None) or str(error)
        return None


_trouble: dict[str, str] = {}


def trouble(name: str) -> str:
    """Why `library(name)` is None; empty when it is not."""
    return "" if library(name) else _trouble[name]


def _build(source: Path) -> Path:
    if compiler() is None:
        raise OSError(f"no C++ compiler ({', '.join(COMPILERS)}) on this machine")
    target = _folder() / f"{source.stem}-{_key(source)}.so"
    if not target.exists():
        # a build of another process may end first: the finished file moves into place at once
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            built = Path(scratch) / target.name
            command = [compiler(), *FLAGS, str(source), "-o", str(built)]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
            built.replace(target)
    return target


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "k3scope" / "kernels"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _key(source: Path) -> str:
    version = subprocess.run([compiler(), "--version"], check=True, capture_output=True, timeout=30).stdout
    header = source.with_name("lanes.h").read_bytes()
    parts = (
        source.read_bytes(),
        header,
        compiler().encode(),
        version,
        " ".join(FLAGS).encode(),
        _processor(),
    )
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _processor() -> bytes:
    """What -march=native looks at: a home folder may be shared by machines that differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.node()}".encode()
    telling = ("model name", "flags", "CPU part", "Features")
    return "\n".join(dict.fromkeys(line for line in lines if line.startswith(telling))).encode()

"""The C++ kernels built by every compiler here for every level of this processor: their tests again."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from k3scope.model.kernels import native

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CPU_TESTS = ["test_kda_cpu.py", "test_experts_cpu.py", "test_statistics_cpu.py"]
COMPILERS = [name for name in native.COMPILERS if name != "c++"]  # c++ is a link to one of the others

# the flags of a build are fixed in native.py; a process of its own gets others
RUN = """
import sys, pytest
from k3scope.model.kernels import native
native.FLAGS = tuple(f"-march={sys.argv[1]}" if f.startswith("-march") else f for f in native.FLAGS)
assert all(native.library(name) for name in ("kda", "experts", "statistics")), native.trouble("kda")
sys.exit(pytest.main(["-q", "-p", "no:randomly", *sys.argv[2:]]))
"""


def levels() -> list[str]:
    """What -march may be here: `native`, and the levels of x86-64 whose instructions this processor has."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0].split())
    except OSError:
        return ["native"]
    named = {"x86-64": {"sse2"}, "x86-64-v2": {"sse4_2", "ssse3"}, "x86-64-v3": {"avx2", "fma", "bmi2"},
             "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}  # fmt: skip
    return ["native", *(name for name, needed in named.items() if needed <= flags)]


@pytest.mark.sweep
@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_kernels_are_right_whatever_builds_them(compiler, level, tmp_path):
    if shutil.which(compiler) is None:
        if os.environ.get("CI"):
            pytest.fail(f"no {compiler} on the path: it may not be left out in CI")
        pytest.skip(f"no {compiler} on the path")
    env = os.environ | {"CXX": compiler, "XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, level, *(str(HERE / name) for name in CPU_TESTS)]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout[-2000:]

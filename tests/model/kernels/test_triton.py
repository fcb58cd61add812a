"""The Triton kernels without a GPU: what they compute, in the interpreter, and what they compile to."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton is not installed: pip install 'k3scope[gpu]'")

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SNAPSHOT = HERE / "compiled.json"
SHARED = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "sm_100": 227 * 1024, "gfx942": 64 * 1024}
PRODUCTS = ("kda_within", "kda_scan", "experts_up", "experts_down")  # kernels that multiply matrices


def run(*command: str, **environment: str) -> subprocess.CompletedProcess:
    env = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "K3SCOPE_KERNELS")}
    env |= {"PYTHONPATH": str(ROOT / "tests" / "helpers"), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True)


def in_two(commands: list[tuple[str, ...]], **environment: str) -> list[subprocess.CompletedProcess]:
    """Two processes at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda command: run(*command, **environment), commands))


@pytest.mark.slow
def test_every_kernel_computes_what_the_reference_does():
    file = "tests/model/kernels/interpreted.py"
    for done in in_two(
        [("-m", "pytest", "-q", file, "-k", names) for names in ("kda", "not kda")], TRITON_INTERPRET="1"
    ):
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.slow
def test_every_line_of_the_gpu_benchmark_runs(tmp_path):
    done = run("tests/bench/gpu.py", "--cpu", "--out", str(tmp_path / "gpu.json"))
    assert done.returncode == 0, done.stderr[-4000:]
    rows = json.loads((tmp_path / "gpu.json").read_text())["rows"]
    assert not [row for row in rows if "failed" in row]


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(arch, marks=pytest.mark.slow if arch == "sm_90" else pytest.mark.sweep)
        for arch in SHARED
    ],
)
def compiled(request):
    """An architecture and the figures of every kernel on it, compiled here in two processes."""
    arch = request.param
    result = {}
    for done in in_two([("tests/model/kernels/aot.py", share, arch) for share in ("0/2", "1/2")]):
        assert done.returncode == 0, done.stderr[-6000:]
        result |= json.loads(done.stdout)
    return arch, result.pop("triton"), {kernel: by_arch[arch] for kernel, by_arch in result.items()}


def test_no_kernel_spills_or_asks_for_too_much_memory(compiled):
    arch, _, kernels = compiled
    for kernel, figures in kernels.items():
        assert figures["spilled"] == 0, f"{kernel} on {arch} spills {figures['spilled']} bytes"
        assert figures["shared"] <= SHARED[arch], f"{kernel} on {arch}: {figures['shared']} bytes shared"


def test_kernels_use_matrix_units_and_wide_loads(compiled):
    arch, _, kernels = compiled
    for kernel, figures in kernels.items():
        assert bool(figures["matrix"]) == kernel.startswith(PRODUCTS), f"{kernel} on {arch}"
        if not arch.startswith("gfx"):
            assert figures["wide_loads"], f"{kernel} on {arch} has no 128-bit loads"


def test_figures_are_those_of_the_snapshot(compiled):
    """Rewrite the snapshot with `python tests/model/kernels/aot.py > tests/model/kernels/compiled.json`."""
    arch, version, kernels = compiled
    snapshot = json.loads(SNAPSHOT.read_text())
    if snapshot["triton"] != version:
        pytest.skip(f"the snapshot is of triton {snapshot['triton']}; this is {version}")
    assert kernels == {kernel: by_arch[arch] for kernel, by_arch in snapshot.items() if kernel != "triton"}

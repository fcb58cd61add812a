"""Which implementation of an operator runs: chosen by device, type and machine, or by K3SCOPE_KERNELS."""

import os
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from k3scope.model.kernels import experts_cpp, kda_cpp, native

TITLES = {"triton": "Triton", "cpp": "C++", "torch": "torch", "reference": "reference"}
OPERATORS = {"kda": "delta rule", "experts": "experts"}

_CPP = {"kda": kda_cpp.serves, "experts": experts_cpp.serves}

# what ran last in this context: operator -> path
_ran: ContextVar[dict[str, str] | None] = ContextVar("ran", default=None)


def override() -> str | None:
    """The path K3SCOPE_KERNELS asks for, None when it asks for nothing."""
    wanted = os.environ.get("K3SCOPE_KERNELS", "")
    if not wanted:
        return None
    if wanted not in TITLES:
        raise ValueError(f"K3SCOPE_KERNELS={wanted!r}: expected one of {', '.join(TITLES)}")
    return wanted


def choose(operator: str, x: Tensor, gradients: bool = False) -> str:
    """Path for an operator on tensors like x, noted as the one that ran.

    An asked-for path that cannot serve x (its type, its gradients) leaves the call to torch.
    """
    path = _choice(operator, x, gradients)
    _ran.set({**(_ran.get() or {}), operator: path})
    return path


def expected(operator: str) -> str:
    """The path that float32 inputs without gradients take on this machine."""
    return _choice(operator, torch.empty(0, device="cuda" if torch.cuda.is_available() else "cpu"), False)


def _choice(operator: str, x: Tensor, gradients: bool) -> str:
    wanted = override()
    if wanted == "reference":
        return wanted
    if wanted in ("cpp", "triton") and (trouble := _trouble(wanted, x)):
        raise ValueError(f"K3SCOPE_KERNELS={wanted}: {trouble}")
    fast = () if gradients else _able(operator, x, wanted)
    return next((path for path in fast if wanted in (None, path)), "torch")


def _trouble(path: str, x: Tensor) -> str:
    """Why an asked-for path can run nothing here; empty when it can."""
    if path == "cpp":
        return native.trouble("kda")
    if not triton_installed():
        return "triton is not installed (pip install 'k3scope[gpu]')"
    return "" if x.is_cuda or _interpreted() else "the tensors are on a CPU; TRITON_INTERPRET=1 runs it there"


def _able(operator: str, x: Tensor, wanted: str | None) -> Iterator[str]:
    """Paths faster than torch that can serve x, best first."""
    # interpreted, it is for tests: only when asked for
    if triton_installed() and (x.is_cuda or (_interpreted() and wanted == "triton")):
        types = (torch.bfloat16,) if operator == "experts_mxfp4" else (torch.bfloat16, torch.float32)
        if x.dtype in types:
            yield "triton"
    if operator in _CPP and _CPP[operator](x):
        yield "cpp"


@cache
def triton_installed() -> bool:
    return find_spec("triton") is not None


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def last_paths() -> dict[str, str]:
    """Operator -> path that computed it last in this thread or task; an operator that never ran is absent."""
    return dict(_ran.get() or {})

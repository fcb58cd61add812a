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
    """The path that K3SCOPE_KERNELS requests, None when it requests nothing."""
    requested = os.environ.get("K3SCOPE_KERNELS", "")
    if not requested:
        return None
    if requested not in TITLES:
        raise ValueError(f"K3SCOPE_KERNELS={requested!r}: expected one of {', '.join(TITLES)}")
    return requested


def choose(operator: str, x: Tensor, gradients: bool = False) -> str:
    """Path for an operator on tensors like x, noted as the one that ran.

    A requested path that cannot serve x (its type, its gradients) leaves the call to torch.
    """
    path = _choice(operator, x, gradients)
    _ran.set({**(_ran.get() or {}), operator: path})
    return path


def expected(operator: str) -> str:
    """The path that float32 inputs without gradients take on this machine."""
    return _choice(operator, torch.empty(0, device="cuda" if torch.cuda.is_available() else "cpu"), False)


def _choice(operator: str, x: Tensor, gradients: bool) -> str:
    requested = override()
    if requested == "reference":
        return requested
    if requested in ("cpp", "triton") and (trouble := _trouble(requested, x)):
        raise ValueError(f"K3SCOPE_KERNELS={requested}: {trouble}")
    fast = () if gradients else _able(operator, x, requested)
    return next((path for path in fast if requested in (None, path)), "torch")


def _trouble(path: str, x: Tensor) -> str:
    """Why a requested path can run nothing on this machine; empty when it can."""
    if path == "cpp":
        return native.trouble("kda")
    if not triton_installed():
        return "triton is not installed (pip install 'k3scope[gpu]')"
    return "" if x.is_cuda or _interpreted() else "the tensors are on a CPU; TRITON_INTERPRET=1 runs it there"


def _able(operator: str, x: Tensor, requested: str | None) -> Iterator[str]:
    """Paths faster than torch that can serve x, best first."""
    # interpreted, it is for tests: only on request
    if triton_installed() and (x.is_cuda or (_interpreted() and requested == "triton")):
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

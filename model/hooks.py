"""Hook points of a forward pass: named inner quantities, and a recorder per thread of work."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

_recorder: ContextVar["Recorder | None"] = ContextVar("recorder", default=None)


class Probe(nn.Identity):
    """Give an inner quantity a name in the module tree; adds no parameter."""


@dataclass
class Recorder:
    """What one forward pass leaves behind: the outputs of the hook points that were requested."""

    points: frozenset[str] | None = None  # None: every hook point
    edits: dict[str, Callable[[Any], Any]] = field(default_factory=dict)  # hook point -> its new output
    on_point: Callable[[str], None] | None = None  # called at each hook point; an exception ends the pass
    on_output: Callable[[str, Any], None] | None = None  # called with each output as the pass goes on with it
    values: dict[str, Any] = field(default_factory=dict)

    def pass_through(self, path: str, out: Any) -> Any:
        if self.on_point is not None:
            self.on_point(path)
        if path in self.edits:
            out = self.edits[path](out)
        if self.on_output is not None:
            self.on_output(path, out)
        if self.points is None or path in self.points:
            self.values[path] = _detach(out)
        return out


def _detach(out: Any) -> Any:
    if isinstance(out, Tensor):
        return out.detach()
    if isinstance(out, tuple | list):
        return tuple(_detach(o) for o in out)
    return out


def watch(model: nn.Module) -> nn.Module:
    """Put a hook on every module, once per model; with no recorder in the context nothing is recorded."""
    if getattr(model, "_watched", False):
        return model
    for path, module in model.named_modules():

        def hook(_module, _args, out, path=path):
            recorder = _recorder.get()
            return None if recorder is None else recorder.pass_through(path, out)

        module.register_forward_hook(hook)
    model._watched = True
    return model


@contextmanager
def record(
    points: Iterable[str] | None = None, edits=None, on_point=None, on_output=None
) -> Iterator[dict[str, Any]]:
    """Collect outputs of watched modules during the forwards made inside the block, in this context only.

    Yields the dict that fills up: hook point -> detached output. KeyError on leaving when a requested one
    never fired.
    """
    requested = None if points is None else frozenset(points)
    recorder = Recorder(requested, dict(edits or {}), on_point, on_output)
    token = _recorder.set(recorder)
    try:
        yield recorder.values
    finally:
        _recorder.reset(token)
    if missing := (requested or frozenset()) - recorder.values.keys():
        raise KeyError(f"these points produced no value in the forward pass: {sorted(missing)[:5]}")

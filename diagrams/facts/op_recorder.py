"""A forward pass as the operations it consists of: who ran them, what they read, what shape they gave."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from k3scope.model.checkpoint.tensor_layout import cast
from k3scope.model.config import Config
from k3scope.model.init import build
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.vision.tower import Images

# no size of a model is likely to be one of these, so an axis of that length is that axis
B, T = 13, 211
GRID = (1, 2 * 37, 2)
AXES = {B: "B", T: "T", 37: "M", 37 * 4: "N"}
CASTS = {"_to_copy", "clone", "_unsafe_view", "alias", "detach", "lift_fresh", "copy_", "view_as", "view_of"}


@dataclass(eq=False)
class Event:
    """One operation. Views and casts are none: what they give counts as what they were made of."""

    name: str  # as torch calls it: "mm", "sigmoid"
    path: str  # of the innermost module that was running
    reads: list["Event | str"]  # operations, and parameters by path
    shape: tuple[int, ...]
    flops: int
    constants: tuple[float, ...] = ()
    through: list[tuple[str, ...]] = field(default_factory=list)  # per read: modules the value has left


class Recording(TorchDispatchMode):
    """Collects events; `enter` and `leave` follow which module runs and which values it was handed."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.events: list[Event] = []
        self.handed: dict[Event, list[str]] = {}  # the modules that got an operation's result, in order
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._made: dict[int, tuple[Event, tuple[str, ...]]] = {}  # by tensor: its operation, modules left
        self._alive: list[Tensor] = []  # ids are only unique among the living
        self._running: list[str] = [""]
        self.types: dict[str, torch.dtype] = {}  # of what each module gave

    def enter(self, path: str, args: tuple) -> None:
        self._running.append(path)
        for tensor in tree_leaves(args):
            if isinstance(tensor, Tensor) and id(tensor) in self._made:
                self.handed.setdefault(self._made[id(tensor)][0], []).append(path)

    def leave(self, path: str, out) -> None:
        self._running.pop()
        given = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        if given:
            self.types[path] = given[0].dtype
        for tensor in given:
            if id(tensor) in self._made:
                event, left = self._made[id(tensor)]
                self._made[id(tensor)] = event, (*left, path)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        inputs = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        outputs = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        self._alive += [*inputs, *outputs]
        if func.is_view or func.overloadpacket.__name__ in CASTS:
            self._same(inputs, outputs)
        elif outputs:
            self._event(func, args, kwargs or {}, inputs, outputs, out)
        return out

    def _same(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        source = inputs[0] if inputs else None
        for x in outputs:
            if id(source) in self._made:
                self._made.setdefault(id(x), self._made[id(source)])
            elif id(source) in self._names:
                self._names[id(x)] = self._names[id(source)]

    def _event(self, func, args, kwargs, inputs, outputs, out) -> None:
        sources = [self._made.get(id(x)) or (self._names.get(id(x)), ()) for x in inputs]
        read = [(source, left) for source, left in sources if source is not None]
        count = flop_registry.get(func.overloadpacket)
        event = Event(
            name=func.overloadpacket.__name__,
            path=self._running[-1],
            reads=[source for source, _ in read],
            shape=tuple(outputs[0].shape),
            flops=int(count(*args, **kwargs, out_val=out)) if count else 0,
            constants=tuple(a for a in args if isinstance(a, int | float) and not isinstance(a, bool)),
            through=[left for _, left in read],
        )
        self.events.append(event)
        for x in outputs:
            self._made[id(x)] = event, ()


def record(c: Config) -> tuple[KimiK3, Recording]:
    """The operations of a model of these widths, on the meta device: a few layers that show every kind.

    In the types of the checkpoint, as the official code loads it.
    """
    model = cast(build(few_layers(c)), c, getattr(torch, c.stored))
    recording = Recording(model)
    hooks = []
    for path, module in model.named_modules():
        hooks.append(module.register_forward_pre_hook(lambda _m, args, p=path: recording.enter(p, args)))
        hooks.append(module.register_forward_hook(lambda _m, _args, out, p=path: recording.leave(p, out)))
    ids, images = torch.zeros(B, T, dtype=torch.long, device="meta"), _images(c)
    with torch.no_grad(), recording:
        model(ids)
        if images:
            model.mm_projector(model.vision_tower(images))
    for hook in hooks:
        hook.remove()
    return model, recording


def _images(c: Config) -> Images | None:
    if not c.vision:
        return None
    side = c.vision.patch
    return Images(torch.zeros(GRID[1] * GRID[2], 3, side, side, device="meta"), (GRID,))


def few_layers(c: Config) -> Config:
    """The same widths with a dense layer if there are, then one layer of each kind, all in one AttnRes block.

    A model of dense layers alone has one of each kind.
    """
    each = tuple(dict.fromkeys(c.kinds))
    dense = min(1, c.dense_layers) if c.moe_layers else len(each)
    kinds = (*c.kinds[:dense], *each) if c.moe_layers else each
    vision = c.vision and replace(c.vision, layers=min(2, c.vision.layers))
    return replace(c, kinds=kinds, dense_layers=dense, block=c.block and len(kinds), vision=vision)


def axes(shape: tuple[int, ...]) -> str:
    """A shape with the names of the axes that depend on the input: "[B, T, 12288]"."""
    if shape and shape[0] == B * T:  # a linear map sees a batch as one long list
        shape = (B, T, *shape[1:])
    elif shape and shape[0] % B == 0 and shape[0] > B:  # and a batched product one matrix per head
        shape = (B, shape[0] // B, *shape[1:])
    return "[" + ", ".join(AXES.get(n) or _longer(n) for n in shape) + "]"


def _longer(n: int) -> str:
    return f"T + {n - T}" if T < n <= T + 8 else str(n)

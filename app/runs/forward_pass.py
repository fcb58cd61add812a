"""One pass of a prompt: what every view shows of it, and the pass itself for those who ask for more."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from app.growth import UNGROWN, Follow, Grown, Growth, disagreement, grow
from app.spec import RunSpec
from model import Config, KimiK3
from model.edits import edits, source_points
from model.images import Picture, prepare
from model.intervene import Intervention, loads
from model.kernels.ops import path_in_use
from model.measure.images import ImageReading, image_readings
from model.measure.readings import Readings, readings
from model.measure.stream import observe, points_for
from model.run import Run as Whole
from model.tokenizer import Piece, Tokenizer
from model.trace import Trace, trace


@dataclass(frozen=True, eq=False)
class Run:
    """What a forward pass showed. `random_weights`: the numbers say nothing about language."""

    spec: RunSpec
    random_weights: bool
    config: Config
    pieces: tuple[Piece, ...]  # one per position, so one per row of an image
    next: tuple[tuple[Piece, float], ...]  # likeliest first, with probability
    readings: Readings
    milliseconds: float
    path: str  # implementation of the operators
    images: tuple[ImageReading, ...] = ()
    random_tower: bool = False  # the same of what it sees in images
    step_error: float | None = None  # largest difference of a logit: token by token and all at once

    @property
    def first_new(self) -> int:
        """Position of the first token that was added to the prompt; past the end when there is none."""
        return len(self.pieces) - len(self.spec.more)

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def changes(self) -> tuple[Intervention, ...]:
        return loads(self.spec.changes)


@dataclass(frozen=True)
class Loaded:
    """A model that runs, and how to speak of it."""

    model: KimiK3
    tokenizer: Tokenizer
    random_weights: bool
    random_tower: bool


@dataclass(frozen=True)
class Asked:
    """A run as a pass takes it: ids with a placeholder per picture, what follows them, runs to patch from."""

    spec: RunSpec
    ids: list[int]
    pictures: Sequence[Picture]
    sources: Mapping[str, Trace]
    grown: Grown = UNGROWN

    @property
    def every(self) -> Tensor:
        return torch.tensor([*self.ids, *self.grown.more])


def extend(loaded: Loaded, asked: Asked, growth: Growth, follow: Follow) -> Asked:
    """The same prompt with the tokens that are to follow it."""
    if not growth.length:
        return asked
    config, changes = loaded.model.config, loads(asked.spec.changes)
    images = prepare(asked.pictures, config.vision) if asked.pictures else None
    grown = grow(
        loaded.model, asked.ids, growth, images, lambda: edits(config, changes, asked.sources), follow
    )
    return replace(asked, spec=replace(asked.spec, more=grown.more), grown=grown)


def forward(
    loaded: Loaded, asked: Asked, on_point: Callable[[str], None], measuring: Callable[[], None]
) -> tuple[Run, Whole]:
    """The run, about 1 MB at most; and the whole pass with the points that the Lab reads, 65 KB a token."""
    model, config, piece = loaded.model, loaded.model.config, loaded.tokenizer.piece
    spec, ids, pictures = asked.spec, asked.every, asked.pictures
    changes = edits(config, loads(spec.changes), asked.sources)
    images = prepare(pictures, config.vision) if pictures else None
    start = time.perf_counter()
    seen = observe(model, ids, edits=changes, on_point=on_point, images=images)
    passed, points = seen.trace, seen.points
    milliseconds = (time.perf_counter() - start) * 1000
    measuring()
    found = readings(passed, points=points)
    pieces = tuple(map(piece, passed.ids[0].tolist()))
    run = Run(
        spec=spec,
        random_weights=loaded.random_weights,
        config=config,
        pieces=pieces,
        next=tuple((piece(int(i)), float(p)) for i, p in zip(found.next_ids, found.next_probs, strict=True)),
        readings=found,
        milliseconds=milliseconds,
        path=path_in_use(),
        images=image_readings(passed, images, [p.size for p in pictures], config) if images else (),
        random_tower=loaded.random_tower,
        step_error=disagreement(passed, asked.grown),
    )
    return run, _whole(loaded, spec, passed, pieces, found)


def _whole(loaded: Loaded, spec: RunSpec, passed: Trace, pieces, found: Readings) -> Whole:
    needed = set(points_for(loaded.model.config))
    fields = vars(passed) | {"values": {p: v for p, v in passed.values.items() if p in needed}}
    return Whole(
        **fields,
        model=loaded.model,
        name=spec.model + (", changed" if spec.changes else ""),
        random_weights=loaded.random_weights,
        pieces=[piece.text for piece in pieces],
        points=found.points,
    )


def sources_of(
    loaded: Loaded, changes: Sequence[Intervention], ids: Callable[[RunSpec], list[int]],
    spec: Callable[[str], RunSpec | None],
) -> dict[str, Trace]:  # fmt: skip
    """The runs to patch from, run once more for the points they give. ValueError for an unknown one."""
    config, found = loaded.model.config, {}
    for name, points in source_points(config, changes).items():
        source = spec(name)
        if source is None:
            raise ValueError(f"the run {name} to patch from is not known here")
        if source.images:
            raise ValueError(f"the run {name} has images; patching takes runs of text alone")
        before = edits(config, loads(source.changes))
        found[name] = trace(loaded.model, torch.tensor(ids(source)), points, before)
    return found


def weights_hash(model: KimiK3) -> str:
    """Twelve hex digits that stand for all numbers of a model."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()[:12]

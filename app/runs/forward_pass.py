"""One pass of a prompt: what every view shows of it, and the pass itself for those who ask for more."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from k3scope.app.runs.continuation import UNGROWN, Follow, Grown, Growth, disagreement, grow
from k3scope.app.runs.run_result import Run
from k3scope.app.runs.run_spec import RunSpec
from k3scope.model import KimiK3
from k3scope.model.interventions.edits import edits, source_points
from k3scope.model.interventions.intervention import Intervention, loads
from k3scope.model.kernels.ops import path_in_use
from k3scope.model.measure.image_readings import image_readings
from k3scope.model.measure.readings import Readings, readings
from k3scope.model.measure.streaming import observe, points_for
from k3scope.model.runs.run import Run as Whole
from k3scope.model.tokenizers.tokenizer import Tokenizer
from k3scope.model.tracing import Trace, trace
from k3scope.model.vision.preprocess import Picture, prepare


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

"""Arrows are causal: each one carries something, and none is missing."""

import re
from collections.abc import Iterator

import pytest
import torch

from diagrams import spec
from diagrams.instances import instances, resolve
from diagrams.spec import Edge
from model import trace

VIEW = spec.view("model")
IO = {n.id for n in VIEW.nodes if n.io}
BLOCKS = sorted(n.id for n in VIEW.nodes if not n.io and n.id not in spec.groups())


def outputs(live, block_id: str, points: tuple[str, ...] = ()) -> dict[int | None, list[str]]:
    """Output points of a block by layer (None outside the stack)."""
    block = spec.blocks()[block_id]
    by_layer: dict[int | None, list[str]] = {}
    for path in instances(live, block):
        # a point named by an edge may pick some of several instances: "v_conv1d"
        found = [
            resolve(path, p) for p in block.out if not points or {p, path.rpartition(".")[2]} & set(points)
        ]
        by_layer.setdefault(depth_of(path), []).extend(found)
    return by_layer


def depth_of(path: str) -> int | None:
    """Place in its stack, of decoder layers or of vision blocks."""
    match = re.search(r"\.(?:layers|blocks)\.(\d+)(?:\.|$)", path)
    return int(match[1]) if match else None


def reached(edge: Edge, layer: int | None, layers: int) -> list[int | None]:
    """Layers of the source that an instance of the target in `layer` reads."""
    everywhere = list(range(layers))
    return {
        "same": [layer],
        "previous": [layer - 1] if layer else [],
        "first": [None] if layer == 0 else [],
        "last": [layers - 1],
        "before": everywhere[: layer or 0],
        "upto": everywhere[: (layer or 0) + 1],
        "all": everywhere,
    }[edge.reach]


def predecessors(live, target: str, layer: int | None) -> Iterator[tuple[Edge, list[str]]]:
    """Each drawn edge into the target's instance in `layer`, with the points it carries."""
    c = live.config
    for edge in VIEW.edges:
        starts = layer is not None and layer % c.block == 0
        skipped = (edge.when == "starts_block" and not starts) or (edge.when == "continues_block" and starts)
        if edge.target != target or edge.source in IO or skipped:
            continue
        table = outputs(live, edge.source, edge.points)
        stack = c.vision.layers if edge.source.startswith("vision") else c.layers
        found = [p for at in reached(edge, layer, stack) for p in table.get(at, [])]
        if edge.reach == "same" and layer is not None and not found:
            found = table.get(None, [])
        if found:
            yield edge, found


def hold(values: dict, points: list[str]) -> dict:
    return {p: (lambda _out, value=values[p]: value) for p in points}


def shake(value: torch.Tensor) -> torch.Tensor:
    """Another value of the same kind: other experts for indices, noise for numbers."""
    if not value.is_floating_point():
        return value.roll(1, 1)  # another token's experts
    noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(9))
    return value * (1 + 0.3 * noise) + 0.01 * noise


def moved(live, prompt: tuple, base: dict, targets: list[str], edits: dict) -> bool:
    ids, images = prompt
    after = trace(live, ids, edits=edits, images=images).values
    return any(not torch.equal(base[t], after[t]) for t in targets)


@pytest.fixture(scope="module")
def base(tiny, clip):
    """A text with a clip in it, and what the model makes of it."""
    ids = torch.randint(0, 256, (1, 7), generator=torch.Generator().manual_seed(6))
    ids[0, 2] = tiny.config.media_pad
    images = clip(tiny)
    return (ids, images), trace(tiny, ids, images=images).values


@pytest.fixture(scope="module")
def other(tiny, clip, base):
    """Another text with another clip of the same size at the same place."""
    ids, _ = base[0]
    return torch.where(ids == tiny.config.media_pad, ids, (ids + 1) % 256), clip(tiny, seed=3)


def layers_to_try(live, block_id: str) -> list[int | None]:
    """First and last instance, a later one at the start of a block, and one inside a block."""
    found = list(outputs(live, block_id))
    starts = [n for n in found if n and n % live.config.block == 0]
    inside = [n for n in found if n and n % live.config.block]
    picks = [found[0], found[-1], *starts[:1], *inside[:1]]
    return list(dict.fromkeys(picks))


@pytest.mark.parametrize("block_id", BLOCKS)
def test_every_arrow_carries_something(tiny, base, block_id):
    prompt, values = base
    for layer in layers_to_try(tiny, block_id):
        edges = list(predecessors(tiny, block_id, layer))
        targets = outputs(tiny, block_id)[layer]
        for edge, points in edges:
            others = [p for e, ps in edges if e is not edge for p in ps if p not in points]
            edits = hold(values, others)
            edits |= {p: (lambda out, value=values[p]: shake(value)) for p in points}
            assert moved(tiny, prompt, values, targets, edits), f"{edge.source} -> {block_id}, layer {layer}"


@pytest.mark.parametrize("block_id", BLOCKS)
def test_no_arrow_is_missing(tiny, base, other, block_id):
    _, values = base
    if any(e.source in IO and e.target == block_id for e in VIEW.edges):
        return  # reads the prompt itself
    for layer in layers_to_try(tiny, block_id):
        held = [p for _, points in predecessors(tiny, block_id, layer) for p in points]
        assert held
        targets = outputs(tiny, block_id)[layer]
        assert not moved(tiny, other, values, targets, hold(values, held)), f"{block_id}, layer {layer}"


def test_every_edge_of_the_view_is_tried(tiny):
    tried = {
        (e.source, e.target, e.reach)
        for b in BLOCKS
        for layer in layers_to_try(tiny, b)
        for e, _ in predecessors(tiny, b, layer)
    }
    drawn = {(e.source, e.target, e.reach) for e in VIEW.edges if not {e.source, e.target} & IO}
    assert tried == drawn

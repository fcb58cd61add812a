"""Arrows are causal: each one carries something, and none is missing."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.facts.instances import resolve
from k3scope.diagrams.spec import block_spec
from k3scope.diagrams.spec.block_spec import Edge
from k3scope.model import trace
from k3scope.model.init import random_model
from k3scope.model.presets import KIMI_LINEAR

IO = {n.id for n in block_spec.view("model").nodes if n.io}
K3, LINEAR = "k3-random", "kimi-linear-48b"  # the second in a small size


def drawn(name: str) -> list[str]:
    view = Facts.of(name).view
    return sorted(n.id for n in view.nodes if not n.io and n.id not in block_spec.groups())


CASES = [(name, block) for name in (K3, LINEAR) for block in drawn(name)]


def small_linear():
    """The sizes of Kimi-Linear, made small."""
    return replace(
        KIMI_LINEAR, vocab=64, d=32, kinds=("kda", "mla", "kda", "mla"), dense=48, kda_heads=2,
        kda_head_dim=8, gate_rank=8, heads=4, kv_rank=24, nope_dim=8, shared_key_dim=4,
        v_dim=8, experts=6, top_k=2, expert_dim=16, a_log_stored=2, bos=0, eos=1, pad=2,
    )  # fmt: skip


def outputs(facts, block_id: str, points: tuple[str, ...] = ()) -> dict[int | None, list[str]]:
    """Output points of a block by layer (None outside the stack)."""
    block = facts.blocks[block_id]
    by_layer: dict[int | None, list[str]] = {}
    for path in facts.instances(block):
        # a point named by an edge may pick some of several instances: "v_conv1d"
        given = [
            resolve(path, p) for p in block.out if not points or {p, path.rpartition(".")[2]} & set(points)
        ]
        by_layer.setdefault(depth_of(path), []).extend(given)
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


def predecessors(facts, target: str, layer: int | None) -> Iterator[tuple[Edge, list[str]]]:
    """Each drawn edge into the target's instance in `layer`, with the points it carries."""
    c = facts.config
    for edge in facts.view.edges:
        starts = bool(c.block) and layer is not None and layer % c.block == 0
        skipped = (edge.when == "starts_block" and not starts) or (edge.when == "continues_block" and starts)
        if edge.target != target or edge.source in IO or skipped:
            continue
        table = outputs(facts, edge.source, edge.points)
        stack = c.vision.layers if edge.source.startswith("vision") else c.layers
        targets = [p for depth in reached(edge, layer, stack) for p in table.get(depth, [])]
        if edge.reach == "same" and layer is not None and not targets:
            targets = table.get(None, [])
        if targets:
            yield edge, targets


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
def families(tiny, clip):
    """Per family: its facts, a text (with a clip, if it sees), what it makes of that, and another text."""
    ids = torch.randint(0, 64, (1, 7), generator=torch.Generator().manual_seed(6))
    linear = random_model(small_linear())
    models = {LINEAR: (Facts("small", linear), (ids, None), ((ids + 1) % 64, None))}
    seeing = ids.clone()
    seeing[0, 2] = pad = tiny.config.media_pad
    another = torch.where(seeing == pad, seeing, (seeing + 1) % 256)
    models[K3] = Facts("tiny", tiny), (seeing, clip(tiny)), (another, clip(tiny, seed=3))
    return {
        name: (facts, prompt, trace(facts.model, prompt[0], images=prompt[1]).values, other)
        for name, (facts, prompt, other) in models.items()
    }


def layers_to_try(facts, block_id: str) -> list[int | None]:
    """First and last instance, a later one at the start of a block, and one inside a block."""
    layers, block = list(outputs(facts, block_id)), facts.config.block or facts.config.layers
    starts = [n for n in layers if n and n % block == 0]
    inside = [n for n in layers if n and n % block]
    picks = [layers[0], layers[-1], *starts[:1], *inside[:1]]
    return list(dict.fromkeys(picks))


@pytest.mark.parametrize(("name", "block_id"), CASES)
def test_every_arrow_carries_something(families, name, block_id):
    facts, prompt, values, _ = families[name]
    for layer in layers_to_try(facts, block_id):
        edges = list(predecessors(facts, block_id, layer))
        targets = outputs(facts, block_id)[layer]
        for edge, points in edges:
            others = [p for e, ps in edges if e is not edge for p in ps if p not in points]
            edits = hold(values, others)
            edits |= {p: (lambda out, value=values[p]: shake(value)) for p in points}
            arrow = f"{edge.source} -> {block_id}, layer {layer}"
            assert moved(facts.model, prompt, values, targets, edits), arrow


@pytest.mark.parametrize(("name", "block_id"), CASES)
def test_no_arrow_is_missing(families, name, block_id):
    facts, _, values, other = families[name]
    if any(e.source in IO and e.target == block_id for e in facts.view.edges):
        return  # reads the prompt itself
    for layer in layers_to_try(facts, block_id):
        held = [p for _, points in predecessors(facts, block_id, layer) for p in points]
        assert held
        targets = outputs(facts, block_id)[layer]
        assert not moved(facts.model, other, values, targets, hold(values, held)), (
            f"{block_id}, layer {layer}"
        )


@pytest.mark.parametrize("name", [K3, LINEAR])
def test_every_edge_of_the_view_is_tried(families, name):
    facts = families[name][0]
    tried = {
        (e.source, e.target, e.reach)
        for b in drawn(name)
        for layer in layers_to_try(facts, b)
        for e, _ in predecessors(facts, b, layer)
    }
    there = {(e.source, e.target, e.reach) for e in facts.view.edges if not {e.source, e.target} & IO}
    assert tried == there

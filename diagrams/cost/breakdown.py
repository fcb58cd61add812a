"""The numbers of a step as a person asks for them: each with its formula in names and filled in."""

from dataclasses import dataclass

from k3scope.diagrams.cost import roofline
from k3scope.diagrams.cost.roofline import ATTENTION, BYTES, Cost, Device, Point, Weights
from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec, formula
from k3scope.diagrams.spec.format_numbers import short, size

OTHER = "Norms, mixes"
# parts of a step: title, kind, blocks (a group stands for everything in it; the first match wins)
PARTS = (
    ("MLA attention", "attention", (ATTENTION,)),
    ("MLA projections", "attention", ("mla",)),
    ("Kimi Delta Attention", "attention", ("kda",)),
    ("Routed experts", "ffn", ("moe_experts",)),
    ("Shared experts", "ffn", ("moe_shared_experts",)),
    ("Router, latent projections", "ffn", ("latent_moe",)),
    ("Dense FFN", "ffn", ("dense_mlp",)),
    ("LM head", "embed", ("lm_head",)),
)


# reading -> the part of a model that it speaks of
NEEDS = {
    "touched": "moe_layers",
    "latents": "mla_layers",
    "states": "kda_layers",
    "crossover": "both_attentions",
}


@dataclass(frozen=True)
class CostReading:
    """One number: short for the eye, exact in `how`, its derivation."""

    id: str
    title: str
    value: str
    note: str  # a second, smaller line
    names: str  # the formula in names
    how: str  # the formula with its numbers, and the result


@dataclass(frozen=True)
class CostPart:
    """What one part of the model takes of a step."""

    title: str
    kind: str
    flops: float
    weight_bytes: float
    flops_how: str
    bytes_how: str


ROUNDS_UP = 0.9995  # three digits make 1 of the larger unit of what is above this share of it


def seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    for unit, of in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= ROUNDS_UP * of:
            return f"{plain(value / of)} {unit}"
    return f"{plain(value / 1e-9)} ns"


def operations(value: float) -> str:
    """FLOPs with their unit: 208 GFLOP."""
    for unit, of in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= ROUNDS_UP * of:
            return f"{plain(value / of)} {unit}FLOP"
    return f"{value:,.0f} FLOP"


def plain(value: float) -> str:
    """Three digits, or all before the point: 1.69, 557, 30,220."""
    return f"{value:,.0f}" if value >= 99.95 else f"{value:.3g}"


def readings(facts: Facts, point: Point, device: Device, count: int) -> list[CostReading]:
    """Time first, then work, then bytes; what the model has no part for is left out."""
    cost = roofline.cost(facts, point)
    all_readings = [
        *_time(cost, point, device, count),
        *_work(cost, point, facts),
        *_caches(cost, point, facts),
        _held(facts, point, device, count),
    ]
    return [reading for reading in all_readings if facts.has(NEEDS.get(reading.id, ""))]


def _time(cost: Cost, point: Point, device: Device, count: int) -> list[CostReading]:
    least, bound = cost.seconds(device, count)
    compute = cost.flops / (device.flops_bf16 * count)
    memory = cost.bytes_read / (device.bytes_per_second * count)
    intensity, ridge = cost.flops / cost.bytes_read, device.flops_bf16 / device.bytes_per_second
    rate = point.new_tokens / least
    where = f"{count} × {device.name}"
    return [
        CostReading(
            "time",
            "Least time of the step",
            seconds(least),
            f"bound by {bound}; compute {seconds(compute)}, memory {seconds(memory)}",
            "the longer of FLOPs ÷ peak and bytes read ÷ bandwidth",
            f"max({cost.flops:.4g} ÷ ({count} × {device.flops_bf16:.4g}/s), {cost.bytes_read:.4g} B ÷ "
            f"({count} × {device.bytes_per_second:.3g} B/s)) = {seconds(least)} on {where}",
        ),
        CostReading(
            "rate",
            "Speed, at most",
            f"{plain(rate)} tokens/s",
            f"{'over the batch' if point.batch > 1 else 'one sequence'}; {plain(intensity)} FLOP per byte, "
            f"the devices balance at {plain(ridge)}",
            "tokens of the step ÷ least time; FLOPs ÷ bytes read against peak ÷ bandwidth",
            f"{point.new_tokens:,} ÷ {seconds(least)}; {cost.flops:.4g} ÷ {cost.bytes_read:.4g} B = "
            f"{plain(intensity)}; {device.flops_bf16:.4g} ÷ {device.bytes_per_second:.3g} = {ridge:.0f}",
        ),
    ]


def _work(cost: Cost, point: Point, facts: Facts) -> list[CostReading]:
    c, w, each = facts.config, Weights.of(facts), BYTES[point.experts_as]
    touched = f"{cost.experts_touched:,.2f}".rstrip("0").rstrip(".")
    per_token = cost.flops / point.new_tokens
    return [
        CostReading(
            "flops",
            "FLOPs of the step",
            operations(cost.flops),
            f"{operations(per_token)} per token",
            "the sum of the parts below: 2 per multiply-add of every matrix product",
            f"{cost.flops:,.0f} over {point.new_tokens:,} tokens = {per_token:,.0f} per token",
        ),
        CostReading(
            "weights",
            "Weights read",
            size(round(cost.weight_bytes)),
            f"{short(round(cost.parameters_read))} parameters",
            "parameters of every step × 2 B + experts touched × MoE layers × weights of one × bytes each",
            f"{w.rest:,} × 2 B + {touched} × {w.layers} × {w.expert:,} × {each:g} B = "
            f"{cost.weight_bytes:,.0f} B",
        ),
        CostReading(
            "touched",
            "Experts touched",
            f"{touched} of {c.experts}",
            "in each MoE layer, expected",
            "experts × (1 − (1 − top_k ÷ experts)^tokens), when all experts are equally likely",
            f"{c.experts} × (1 − (1 − {c.top_k} ÷ {c.experts})^{point.new_tokens:,}) = {touched}",
        ),
    ]


def _caches(cost: Cost, point: Point, facts: Facts) -> list[CostReading]:
    c = facts.config
    token, state = roofline.latent_bytes_per_token(c), roofline.state_bytes(c, point.conv_state)
    cross = roofline.crossover(c, point.conv_state) or 0
    width, wide = c.kda_heads * c.kda_head_dim, 2 if point.conv_state == "bf16" else 4
    held = "held, not read" if point.phase == "prefill" else "read in the step"
    latents, states = point.batch * point.context * token, point.batch * state
    return [
        CostReading(
            "latents",
            "KV cache",
            size(latents),
            f"{token:,} B per token; {held}",
            "batch × context × MLA layers × (kv_rank + shared_key_dim) × 2 B",
            f"{point.batch:,} × {point.context:,} × {c.kinds.count('mla')} × ({c.kv_rank} + "
            f"{c.shared_key_dim}) × 2 B = {latents:,} B",
        ),
        CostReading(
            "states",
            "KDA state",
            size(states),
            f"constant: {state:,} B per sequence",
            "batch × KDA layers × (kda_heads × kda_head_dim² × 4 B + 3 × (conv − 1) × kda_heads × "
            f"kda_head_dim × {wide} B)",
            f"{point.batch:,} × {c.kinds.count('kda')} × ({c.kda_heads} × {c.kda_head_dim}² × 4 B + 3 × "
            f"{c.conv - 1} × {width:,} × {wide} B) = {states:,} B",
        ),
        CostReading(
            "crossover",
            "Cache passes state at",
            f"{cross:,} tokens",
            "past it the KV cache is the larger of the two",
            "bytes of the state ÷ bytes of one token in the KV cache, rounded down",
            f"{state:,} B ÷ {token:,} B = {cross:,}",
        ),
    ]


def _held(facts: Facts, point: Point, device: Device, count: int) -> CostReading:
    weights, caches = roofline.held_bytes(facts, point)
    room = device.memory_bytes * count
    fits = "fits in" if weights + caches <= room else "does not fit in"
    return CostReading(
        "held",
        "Held in memory",
        size(round(weights + caches)),
        f"{fits} {size(round(room))} of {count} × {device.name}",
        "all weights of the text model + KV caches + states, against the memory of the devices",
        f"{weights:,.0f} B + {caches:,.0f} B = {weights + caches:,.0f} B; {count} × "
        f"{device.memory_bytes:,.0f} B = {room:,.0f} B",
    )


def cost_parts(facts: Facts, point: Point) -> list[CostPart]:
    """The step by part of the model; parts without work and without weights are left out."""
    w = Weights.of(facts)
    touched = roofline.experts_touched(facts.config, point.new_tokens)
    members: dict[str, list[block_spec.Block]] = {title: [] for title, _, _ in PARTS} | {OTHER: []}
    inside = {i: {i, *facts.view.inside(i)} for _, _, ids in PARTS for i in ids}
    for block in roofline.text_leaves(facts):
        if block.id != "token_embedding":  # looked up, not multiplied
            members[_part_of(block.id, inside)].append(block)
    kinds = {title: kind for title, kind, _ in PARTS}
    parts = []
    for title, blocks in members.items():
        flops = sum(roofline.block_flops(facts, b, point) for b in blocks)
        own = sum(facts.own_total(b) for b in blocks if b.leaves)
        if title == "LM head" and not facts.config.own_head:
            own = facts.own_total(facts.blocks["token_embedding"])
        read, how = own * 2, f"{own:,} × 2 B"
        if title == "Routed experts":
            read = touched * w.layers * w.expert * BYTES[point.experts_as]
            how = f"{touched:,.2f} × {w.layers} × {w.expert:,} × {BYTES[point.experts_as]:g} B"
        if flops or read:
            kind = kinds.get(title, "norm")
            parts.append(CostPart(title, kind, flops, read, _flops_how(facts, blocks, point, flops), how))
    return parts


def _part_of(block: str, inside: dict[str, set[str]]) -> str:
    return next((title for title, _, ids in PARTS if any(block in inside[i] for i in ids)), OTHER)


def _flops_how(facts: Facts, blocks: list[block_spec.Block], point: Point, flops: float) -> str:
    tokens = point.context if point.phase == "prefill" else 1
    sizes = facts.sizes | {"B": point.batch, "T": tokens}
    terms = []
    for block in blocks:
        if roofline.block_flops(facts, block, point):
            context = f" × {point.context:,}" if block.id == ATTENTION and point.phase == "decode" else ""
            terms.append(f"{len(facts.instances(block))} × {formula.filled(block.flops, sizes)}{context}")
    return f"{' + '.join(terms) or 'no matrix product'} = {flops:,.0f}"

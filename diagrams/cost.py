"""What a step costs: parameters and bytes read, FLOPs, caches, and the time a device needs at least."""

from dataclasses import dataclass, replace

from diagrams import formula, spec
from diagrams.facts import Facts
from model.config import Config

BYTES = {"bf16": 2.0, "fp8": 1.0, "mxfp4": 0.5 + 1 / 32}  # mxfp4: one scale byte per 32 weights


@dataclass(frozen=True)
class Device:
    """Peak figures of one accelerator as its maker states them, dense, without sparsity."""

    name: str
    flops_bf16: float  # per second
    bytes_per_second: float
    memory_bytes: float


DEVICES = (
    Device("H100 SXM", 989e12, 3.35e12, 80e9),
    Device("H200 SXM", 989e12, 4.8e12, 141e9),
    Device("B200", 2250e12, 8.0e12, 192e9),
    Device("MI300X", 1307e12, 5.3e12, 192e9),
)


@dataclass(frozen=True)
class Point:
    """Where the cost is asked for: `batch` sequences that already hold `context` tokens each.

    Prefill computes the whole context at once; decode adds one token to it.
    """

    context: int = 16_384
    batch: int = 1
    phase: str = "decode"
    experts_as: str = "mxfp4"
    conv_state: str = "bf16"

    def __post_init__(self):
        if self.context < 1 or self.batch < 1:
            raise ValueError(f"context is {self.context} and batch {self.batch}; expected at least 1 of each")
        if self.phase not in ("prefill", "decode"):
            raise ValueError(f"phase is {self.phase!r}; expected 'prefill' or 'decode'")
        if self.experts_as not in BYTES or self.conv_state not in ("bf16", "fp32"):
            raise ValueError(
                f"expected experts as {', '.join(BYTES)} and the convolution state as bf16 or fp32"
            )

    @property
    def new_tokens(self) -> int:
        """Tokens computed in this step, over all sequences."""
        return self.batch * (self.context if self.phase == "prefill" else 1)


@dataclass(frozen=True)
class Cost:
    """The cost of one step; `formulas` says how each number comes about, filled in."""

    flops: float
    weight_bytes: float
    cache_bytes: float  # read: the latents of the context and the states
    experts_touched: float  # per layer, expected under even routing
    formulas: dict[str, str]

    @property
    def bytes_read(self) -> float:
        return self.weight_bytes + self.cache_bytes

    def seconds(self, device: Device, count: int = 1) -> tuple[float, str]:
        """The least time on `count` devices, and what bounds it: "compute" or "memory"."""
        compute = self.flops / (device.flops_bf16 * count)
        memory = self.bytes_read / (device.bytes_per_second * count)
        return max((compute, "compute"), (memory, "memory"))


def latent_bytes_per_token(c: Config) -> int:
    """KV cache of one token in bfloat16: one latent and one shared key per MLA layer."""
    return c.kinds.count("mla") * (c.kv_rank + c.shared_key_dim) * 2


def state_bytes(c: Config, conv_state: str = "bf16") -> int:
    """Constant memory of one sequence: float32 KDA states and the last inputs of three convolutions."""
    width = c.kda_heads * c.kda_head_dim
    states = c.kda_heads * c.kda_head_dim * c.kda_head_dim * 4
    inputs = 3 * width * (c.conv - 1) * (2 if conv_state == "bf16" else 4)
    return c.kinds.count("kda") * (states + inputs)


def crossover(c: Config, conv_state: str = "bf16") -> int:
    """Tokens of context whose KV cache is still no larger than the constant states."""
    return state_bytes(c, conv_state) // latent_bytes_per_token(c)


def experts_touched(c: Config, tokens: int) -> float:
    """Distinct experts of one layer that `tokens` tokens reach, expected when all are equally likely."""
    return c.experts * (1 - (1 - c.top_k / c.experts) ** tokens)


def text_leaves(facts: Facts) -> list[spec.Block]:
    """Leaf blocks of the text model."""
    vision = {"vision", *facts.view.inside("vision")}
    return [b for b in facts.blocks.values() if b.id not in spec.groups() | vision]


def flops(facts: Facts, point: Point) -> float:
    """Matrix FLOPs of a step: the blocks' formulas, attention over the whole context when decoding."""
    tokens = point.context if point.phase == "prefill" else 1
    sizes = facts.sizes | {"B": point.batch, "T": tokens}
    total = 0
    for block in text_leaves(facts):
        each = formula.evaluate(block.flops, sizes)
        if block.id == "mla_attention" and point.phase == "decode":
            each *= point.context  # one query against every token
        total += each * len(facts.instances(block))
    return total


def cost(facts: Facts, point: Point) -> Cost:
    """Cost of one step of the text model at a point."""
    c = facts.config
    touched = experts_touched(c, point.new_tokens)
    routed, table = facts.blocks["moe_experts"], facts.blocks["token_embedding"]
    expert, layers = facts.per_instance(routed) // c.experts, len(facts.instances(routed))
    rest = facts.totals.text - facts.own_total(routed) - facts.own_total(table)
    each = BYTES[point.experts_as]
    weight_bytes = rest * 2 + touched * layers * expert * each
    latents = point.batch * point.context * latent_bytes_per_token(c) if point.phase == "decode" else 0
    states = point.batch * state_bytes(c, point.conv_state)
    return Cost(
        flops=flops(facts, point),
        weight_bytes=weight_bytes,
        cache_bytes=latents + states,
        experts_touched=touched,
        formulas={
            "experts touched": f"{c.experts} × (1 − (1 − {c.top_k}/{c.experts})^{point.new_tokens:,})",
            "weights read": f"{rest:,} × 2 B + {touched:,.1f} × {layers} × {expert:,} × {each:g} B",
            "KV cache": f"{point.batch:,} × {point.context:,} × {latent_bytes_per_token(c):,} B",
            "states": f"{point.batch:,} × {state_bytes(c, point.conv_state):,} B",
        },
    )


def curve(facts: Facts, point: Point, contexts: list[int]) -> list[Cost]:
    """The cost at each context, all else equal."""
    return [cost(facts, replace(point, context=n)) for n in contexts]

"""What a step costs: parameters and bytes read, FLOPs, caches, and the time a device needs at least."""

from dataclasses import dataclass, replace

from k3scope.diagrams.facts.block_facts import Facts
from k3scope.diagrams.spec import block_spec, formula
from k3scope.model.config import Config

ATTENTION = "mla_attention"  # the one block whose work grows with the context
# bytes a weight: one of scale for 32 weights in mxfp4, for 16 in nvfp4
BYTES = {"bf16": 2.0, "fp8": 1.0, "mxfp4": 0.5 + 1 / 32, "nvfp4": 0.5 + 1 / 16}


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
    """The operating point of a step: `batch` sequences that already hold `context` tokens each.

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
    """The cost of one step."""

    flops: float
    parameters_read: float
    weight_bytes: float
    latent_bytes: float  # of the KV cache, read; prefill only writes caches
    state_bytes: float
    experts_touched: float  # per layer, expected under even routing

    @property
    def cache_bytes(self) -> float:
        return self.latent_bytes + self.state_bytes

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


def crossover(c: Config, conv_state: str = "bf16") -> int | None:
    """Tokens of context whose KV cache is still no larger than the constant states; None without either."""
    state, token = state_bytes(c, conv_state), latent_bytes_per_token(c)
    return state // token if state and token else None


def experts_touched(c: Config, tokens: int) -> float:
    """Distinct experts of one layer that `tokens` tokens reach, expected when all are equally likely."""
    return c.experts * (1 - (1 - c.top_k / c.experts) ** tokens)


def text_leaves(facts: Facts) -> list[block_spec.Block]:
    """Leaf blocks of the text model."""
    others = block_spec.groups() | {"vision", *facts.view.inside("vision")}
    return [b for b in facts.blocks.values() if b.id not in others]


@dataclass(frozen=True)
class Weights:
    """The text model's parameters as a step reads them: routed experts, the lookup table, and the rest."""

    expert: int  # of one routed expert
    layers: int  # that have routed experts
    table: int  # one row per token is looked up: not counted as read
    rest: int  # everything else, read in every step

    @staticmethod
    def of(facts: Facts) -> "Weights":
        c, expert = facts.config, 0
        layers = c.layers - c.dense_layers
        if layers:
            expert = facts.per_instance(facts.blocks["moe_experts"]) // c.experts
        # a tied head reads all of the table
        table = facts.own_total(facts.blocks["token_embedding"]) if c.own_head else 0
        return Weights(expert, layers, table, facts.totals.text - layers * c.experts * expert - table)


def held_bytes(facts: Facts, point: Point) -> tuple[float, float]:
    """What the devices must hold: the weights of the text model, and the caches of all sequences."""
    c, w = facts.config, Weights.of(facts)
    weights = (w.rest + w.table) * 2 + w.layers * c.experts * w.expert * BYTES[point.experts_as]
    caches = point.context * latent_bytes_per_token(c) + state_bytes(c, point.conv_state)
    return weights, point.batch * caches


def block_flops(facts: Facts, block: block_spec.Block, point: Point) -> float:
    """Matrix FLOPs of all instances of a block; when decoding, one query meets the whole context."""
    tokens = point.context if point.phase == "prefill" else 1
    each = formula.evaluate(block.flops, facts.sizes | {"B": point.batch, "T": tokens})
    if block.id == ATTENTION and point.phase == "decode":
        each *= point.context
    return each * len(facts.instances(block))


def flops(facts: Facts, point: Point) -> float:
    """Matrix FLOPs of a step of the text model."""
    return sum(block_flops(facts, block, point) for block in text_leaves(facts))


def cost(facts: Facts, point: Point) -> Cost:
    """Cost of one step of the text model at a point."""
    c, w = facts.config, Weights.of(facts)
    touched = experts_touched(c, point.new_tokens)
    before = point.batch if point.phase == "decode" else 0  # prefill starts from nothing
    return Cost(
        flops=flops(facts, point),
        parameters_read=w.rest + touched * w.layers * w.expert,
        weight_bytes=w.rest * 2 + touched * w.layers * w.expert * BYTES[point.experts_as],
        latent_bytes=before * point.context * latent_bytes_per_token(c),
        state_bytes=before * state_bytes(c, point.conv_state),
        experts_touched=touched,
    )


def curve(facts: Facts, point: Point, contexts: list[int]) -> list[Cost]:
    """The cost at each context, all else equal."""
    return [cost(facts, replace(point, context=n)) for n in contexts]

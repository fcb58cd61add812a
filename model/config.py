"""The sizes of a model: one frozen record."""

from dataclasses import dataclass
from typing import Any

from k3scope.model.official_config import config_fields
from k3scope.model.quantization.quantization import Quantization
from k3scope.model.vision.vision_config import VisionConfig


@dataclass(frozen=True)
class Config:
    """Every size and constant of a model; the field names are the vocabulary of the project.

    None means that the model has no such part. Sizes of the vision half are in `vision`.
    """

    vocab: int
    d: int
    kinds: tuple[str, ...]  # "kda" or "mla", one per layer
    dense_layers: int  # leading layers with a dense FFN
    dense: int  # width of the dense FFN
    kda_heads: int
    kda_head_dim: int
    conv: int  # kernel of the short convolutions
    decay_floor: float | None  # None: softplus decay without a floor
    heads: int  # of MLA
    q_rank: int | None  # None: queries come straight from the layer input
    kv_rank: int
    nope_dim: int
    shared_key_dim: int  # official name qk_rope_head_dim; nothing is rotated
    v_dim: int
    experts: int
    top_k: int
    shared_experts: int
    expert_dim: int
    latent: int | None  # None: experts work at full width
    block: int | None  # layers per AttnRes block; None: plain residuals
    gate_rank: int | None = None  # of KDA's output gate; None: full rank
    mla_gate: bool = True
    routed_scale: float = 1.0
    gate_cap: float | None = 4.0  # None: SwiGLU
    up_cap: float | None = 25.0
    eps: float = 1e-5
    latent_eps: float = 1e-6  # q_a and kv_a norms keep their class default in the official code
    l2_eps: float = 1e-6
    init_std: float = 0.02
    max_positions: int = 1048576
    bos: int = 0
    eos: int = 0
    pad: int = 0
    a_log_stored: int = 0  # entries of A_log in the checkpoint; 0 stands for kda_heads
    quantization: Quantization | None = None  # None: every tensor is stored as it is
    stored: str = "bfloat16"  # dtype of a checkpoint, apart from the tensors that are always float32
    vision: VisionConfig | None = None
    media_pad: int | None = None  # the id that stands for one image in a prompt
    own_head: bool = True  # False: the LM head is the embedding table, stored once
    other_eos: tuple[int, ...] = ()  # further ids that end a text

    def __post_init__(self):
        if not self.a_log_stored:
            object.__setattr__(self, "a_log_stored", self.kda_heads)
        _check(self)

    @classmethod
    def from_official(cls, raw: dict[str, Any]) -> "Config":
        """Read an official config.json (`text_config` nested or flat). ValueError names the key at fault."""
        return cls(**config_fields(raw))

    @property
    def layers(self) -> int:
        return len(self.kinds)

    @property
    def depths(self) -> tuple[int, ...]:
        """Layers of each half: of the text model, and of the vision tower where there is one."""
        return (self.layers, self.vision.layers) if self.vision else (self.layers,)

    @property
    def stops(self) -> tuple[int, ...]:
        """The ids that end a generation."""
        return (self.eos, *self.other_eos)

    @property
    def packed_experts(self) -> bool:
        """Whether routed experts are stored as MXFP4 in groups of 32, which can run as they are."""
        return self.quantization is not None and any(s.runs for s in self.quantization.rules.schemes)

    @property
    def family(self) -> str:
        """ "k3", or "kimi-linear": the older one, whose KDA gate has a low rank."""
        return "kimi-linear" if self.gate_rank else "k3"

    def candidates(self, layer: int, mix: str) -> int:
        """How many sources a mix reads: stored blocks plus the running sum. `mix` is "attn" or "ffn"."""
        stored = -(-layer // self.block) if mix == "attn" else layer // self.block + 1
        return stored + 1

    def sizes(self) -> dict[str, int | float]:
        """Numbers by name, for formulas; what the model does not have is left out."""
        values = {n: getattr(self, n) for n in self.__dataclass_fields__}
        numbers = {n: v for n, v in values.items() if isinstance(v, int | float) and not isinstance(v, bool)}
        return numbers | {"layers": self.layers} | (self.vision.sizes() if self.vision else {})


def _check(c: Config) -> None:
    for name, value in c.sizes().items():
        if name in ("shared_experts", "dense_layers") and value == 0:
            continue
        if name not in ("decay_floor", "bos", "eos", "pad", "media_pad") and not value > 0:
            raise ValueError(f"Config.{name} is {value!r}; expected a positive number")
    if unknown := set(c.kinds) - {"kda", "mla"}:
        raise ValueError(f"Config.kinds has {sorted(unknown)}; expected only 'kda' and 'mla'")
    if c.top_k >= c.experts:
        raise ValueError(f"top_k is {c.top_k} with {c.experts} experts; expected fewer choices than experts")
    if c.a_log_stored < c.kda_heads:
        raise ValueError(f"a_log_stored is {c.a_log_stored}; expected at least kda_heads = {c.kda_heads}")
    if c.decay_floor is not None and c.decay_floor >= 0:
        raise ValueError(f"decay_floor is {c.decay_floor}; expected a negative log-decay such as -5.0")
    if c.vision and c.media_pad is None:
        raise ValueError("media_pad is None; a model that sees needs the id that stands for an image")

"""Parameters and bytes of a model, counted on the module tree itself."""

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from torch import nn

from k3scope.model.checkpoint.tensor_layout import Layout, Storage
from k3scope.model.config import Config
from k3scope.model.kda import KimiDeltaAttention
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.moe import Experts
from k3scope.model.moe_packed import ExpertsOnDemand


@dataclass(frozen=True)
class Index:
    """What model.safetensors.index.json of a release states."""

    tensors: int
    bytes: int


OFFICIAL = {
    "kimi-k3": Index(497_220, 1_560_860_324_864),
    "kimi-linear-48b": Index(20_493, 98_245_528_576),
}


@dataclass(frozen=True)
class Totals:
    """Parameter counts of a model; `padding` and `unused` are part of `text`."""

    text: int
    vision: int | None  # tower and projector; None: the model has none
    padding: int  # A_log entries beyond the head count
    unused: int  # layer 0 of K3 has a mix it never uses
    active: int  # read for one token: LM head counted, lookup table not
    active_with_table: int
    active_without_head: int  # neither of the two vocabulary matrices
    storage: Storage  # tensors and bytes in the official layout

    @property
    def total(self) -> int:
        return self.text + (self.vision or 0)

    def difference(self, model: str) -> Index | None:
        """Ours minus the official index; None when there is none for a model of that name."""
        if model not in OFFICIAL:
            return None
        index = OFFICIAL[model]
        return Index(self.storage.tensors - index.tensors, self.storage.bytes - index.bytes)


def count(module: nn.Module) -> int:
    """Parameters below `module`; tied or shared ones count once, packed experts by what they stand for."""
    packed = sum(m.parameters_stored for m in module.modules() if isinstance(m, ExpertsOnDemand))
    return packed + sum(p.numel() for p in module.parameters())


def split(module: nn.Module, key: Callable[[str], Hashable]) -> dict[Hashable, int]:
    """Parameters by `key` of their path. A shared one belongs to its first path, so the parts sum up."""
    parts: Counter[Hashable] = Counter()
    for path, parameter in module.named_parameters():
        parts[key(path)] += parameter.numel()
    return dict(parts)


def totals(model: KimiK3, layout: Layout | None = None) -> Totals:
    """Counts of a model. `layout`: its official tensors, where they were listed before."""
    c = model.config
    text = model.language_model
    seeing = [child for name, child in model.named_children() if name != "language_model"]
    table = count(text.model.embed_tokens)
    head = count(text.lm_head) if c.own_head else table
    active = active_parameters(model, c)
    return Totals(
        text=count(text),
        vision=sum(map(count, seeing)) if seeing else None,
        padding=sum(m.A_log.numel() - c.kda_heads for m in _all(text, KimiDeltaAttention)),
        unused=_unused(text.model.layers[0]),
        active=active,
        active_with_table=active + (table if c.own_head else 0),
        active_without_head=active - head,
        storage=(Layout(model, c) if layout is None else layout).storage(),
    )


def active_parameters(model: KimiK3, c: Config) -> int:
    """Text parameters that take part in one token: `top_k` of the experts, and no mere lookup table."""
    text = model.language_model
    table = count(text.model.embed_tokens) if c.own_head else 0
    routed = sum(count(m) for m in _all(text, Experts | ExpertsOnDemand))
    return count(text) - table - routed + routed // c.experts * c.top_k


def _unused(first: nn.Module) -> int:
    """The mix of layer 0 has nothing stored to read, and the release skips it."""
    parts = ("self_attention_res_norm", "self_attention_res_proj")
    return sum(count(getattr(first, name)) for name in parts if hasattr(first, name))


def _all(module: nn.Module, kind) -> list:
    return [m for m in module.modules() if isinstance(m, kind)]

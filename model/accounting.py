"""How many parameters, counted on the module tree itself."""

from dataclasses import dataclass

from torch import nn

from model.config import Config
from model.kda import KimiDeltaAttention
from model.kimi_k3 import KimiK3
from model.moe import Experts


@dataclass(frozen=True)
class Totals:
    """Parameter counts of the text model; `padding` and `unused` are part of `text`."""

    text: int
    padding: int  # A_log entries beyond the head count
    unused: int  # layer 0 has a mix it never uses
    active: int  # read for one token: head counted, lookup table not


def count(module: nn.Module) -> int:
    """Parameters below `module`; tied or shared ones count once."""
    return sum(p.numel() for p in module.parameters())


def totals(model: KimiK3) -> Totals:
    c = model.config
    text = count(model)
    first = model.language_model.model.layers[0]
    unused = count(first.self_attention_res_norm) + count(first.self_attention_res_proj)
    padding = sum(m.A_log.numel() - c.kda_heads for m in model.modules() if isinstance(m, KimiDeltaAttention))
    return Totals(text, padding, unused, active_parameters(model, c))


def active_parameters(model: KimiK3, c: Config) -> int:
    """Parameters that take part in one token: `top_k` of the experts, and no embedding table."""
    routed = sum(count(m) for m in model.modules() if isinstance(m, Experts))
    table = count(model.language_model.model.embed_tokens)
    return count(model) - table - routed + routed // c.experts * c.top_k

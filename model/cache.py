"""What a model remembers between two calls, so that the next token costs one step."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class LayerCache:
    """One layer's memory: a state and a few inputs for KDA, one latent per token for MLA."""

    state: Tensor | None = None  # KDA: [B, kda_heads, kda_head_dim (key), kda_head_dim (value)]
    inputs: dict[str, Tensor] = field(default_factory=dict)  # KDA: last inputs of each convolution
    latent: Tensor | None = None  # MLA: [B, T, kv_rank + shared_key_dim]
    real: Tensor | None = None  # [B, T] False where a token is padding; None when none is

    def with_past_inputs(self, name: str, x: Tensor, keep: int) -> Tensor:
        """`x` [B, T, width] with the `keep` inputs before it (zeros at the start), stored for next time."""
        past = self.inputs.get(name)
        if past is None:
            past = x.new_zeros(x.shape[0], keep, x.shape[2])
        x = torch.cat([past, x], 1)
        self.inputs[name] = x[:, x.shape[1] - keep :]
        return x

    def with_past_latents(self, latent: Tensor) -> Tensor:
        """All latents so far, `latent` [B, T, width] being the newest."""
        self.latent = latent if self.latent is None else torch.cat([self.latent, latent], 1)
        return self.latent

    def zero_padding(self, x: Tensor) -> Tensor:
        """`x` [B, T, d] with the rows of padding tokens set to zero."""
        return x if self.real is None else x * self.real[:, -x.shape[1] :, None]


class Cache:
    """The memory of all layers, and how many tokens it has read."""

    def __init__(self, layers: int):
        self.layers = [LayerCache() for _ in range(layers)]
        self.length = 0
        self.real: Tensor | None = None

    def extend(self, count: int, batch: int, real: Tensor | None, device) -> None:
        """Make room for `count` new tokens; `real` [B, count] marks padding with False."""
        if real is not None or self.real is not None:
            before = self._all_real(batch, self.length, device) if self.real is None else self.real
            new = self._all_real(batch, count, device) if real is None else real.bool()
            self.real = torch.cat([before, new], 1)
        self.length += count
        for layer in self.layers:
            layer.real = self.real

    def copy(self) -> "Cache":
        """A snapshot; tensors are shared, since no step changes one in place."""
        other = Cache(0)
        other.length, other.real = self.length, self.real
        other.layers = [LayerCache(c.state, dict(c.inputs), c.latent, c.real) for c in self.layers]
        return other

    def tensors(self) -> list[Tensor]:
        tensors_of_layers = [t for c in self.layers for t in (c.state, c.latent, *c.inputs.values())]
        return [t for t in tensors_of_layers if t is not None]

    @property
    def cache_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.tensors())

    @staticmethod
    def _all_real(batch: int, count: int, device) -> Tensor:
        return torch.ones(batch, count, dtype=torch.bool, device=device)

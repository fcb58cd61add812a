"""What a model remembers between two calls, so that the next token costs one step."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Padding:
    """Where the padding is among the tokens of one step. A convolution reads the real ones first."""

    real: Tensor  # [B, T] bool
    first: Tensor  # [B, T] int64: the positions of the real tokens, then those of the others
    back: Tensor  # [B, T] int64: where each token stands in that order
    counts: Tensor  # [B] int64: real tokens

    @classmethod
    def of(cls, real: Tensor) -> "Padding | None":
        """None when every token is real."""
        if real.all():
            return None
        first = real.byte().argsort(dim=1, descending=True, stable=True)
        return cls(real, first, first.argsort(dim=1), real.sum(1))


@dataclass
class LayerCache:
    """One layer's memory: a state and a few inputs for KDA, one latent per token for MLA."""

    state: Tensor | None = None  # KDA: [B, kda_heads, kda_head_dim (key), kda_head_dim (value)]
    inputs: dict[str, Tensor] = field(default_factory=dict)  # KDA: last inputs of each convolution
    latent: Tensor | None = None  # MLA: [B, T, kv_rank + shared_key_dim]
    real: Tensor | None = None  # [B, T] of all tokens so far, False where one is padding; None when none is
    padding: Padding | None = None  # among the tokens of the step; None when there is none

    def with_past_inputs(self, name: str, x: Tensor, keep: int) -> Tensor:
        """`x` [B, T, width] with the `keep` real inputs before it (zeros at the start), stored for next time.

        Padding stands behind the real inputs of its row; `in_order` undoes that.
        """
        past, padding = self.inputs.get(name), self.padding
        if past is None:
            past = x.new_zeros(x.shape[0], keep, x.shape[2])
        if padding is not None:
            x = x.take_along_dim(padding.first[..., None], 1)
        x = torch.cat([past, x], 1)
        if padding is None:
            self.inputs[name] = x[:, x.shape[1] - keep :]
        else:
            last = padding.counts[:, None] + torch.arange(keep, device=x.device)  # [B, keep]
            self.inputs[name] = x.take_along_dim(last[..., None], 1)
        return x

    def in_order(self, x: Tensor) -> Tensor:
        """What a convolution made of `with_past_inputs`, [B, T, width], where its tokens are."""
        return x if self.padding is None else x.take_along_dim(self.padding.back[..., None], 1)

    def with_past_latents(self, latent: Tensor) -> Tensor:
        """All latents so far, `latent` [B, T, width] being the newest."""
        self.latent = latent if self.latent is None else torch.cat([self.latent, latent], 1)
        return self.latent

    def zero_padding(self, x: Tensor) -> Tensor:
        """`x` [B, T, ...] with zeros at padding."""
        if self.padding is None:
            return x
        return x.masked_fill(~self.padding.real.view(*x.shape[:2], *[1] * (x.ndim - 2)), 0)


class Cache:
    """The memory of all layers, and how many tokens it has read."""

    def __init__(self, layers: int):
        self.layers = [LayerCache() for _ in range(layers)]
        self.length = 0
        self.batch: int | None = None  # sequences; None before the first step
        self.real: Tensor | None = None

    def extend(self, count: int, batch: int, real: Tensor | None, device) -> None:
        """Make room for `count` new tokens; `real` [B, count] bool is False at padding, wherever it stands.

        ValueError when the cache holds another number of sequences.
        """
        if self.batch not in (None, batch):
            raise ValueError(
                f"the cache holds {self.batch} sequences; expected ids of as many, not of {batch}"
            )
        padding = None if real is None else Padding.of(real)
        if padding is not None or self.real is not None:
            before = self._all_real(batch, self.length, device) if self.real is None else self.real
            new = self._all_real(batch, count, device) if real is None else real
            self.real = torch.cat([before, new], 1)
        self.length, self.batch = self.length + count, batch
        for layer in self.layers:
            layer.real, layer.padding = self.real, padding

    def copy(self) -> "Cache":
        """A snapshot; tensors are shared, since no step changes one in place."""
        other = Cache(0)
        other.length, other.batch, other.real = self.length, self.batch, self.real
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


def check_mask(real, ids: Tensor) -> Tensor | None:
    """Which of the ids [B, T] are real, as bool [B, T]; None for all. ValueError for what is no such mask."""
    if real is None:
        return None
    real = torch.as_tensor(real, device=ids.device)
    if real.shape != ids.shape:
        raise ValueError(f"real has shape {tuple(real.shape)}; expected that of the ids, {tuple(ids.shape)}")
    if real.dtype != torch.bool and not ((real == 0) | (real == 1)).all():
        raise ValueError("real holds other values than 0 and 1; expected 1 at each token and 0 at padding")
    return real.bool()

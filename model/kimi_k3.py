"""The whole text model, with the module names of the official checkpoint."""

from torch import Tensor, nn

from model.attnres import AttnResMix
from model.cache import Cache
from model.config import Config
from model.kimi_linear import ResidualTextModel
from model.layer import DecoderLayer
from model.norm import RMSNorm


class TextModel(nn.Module):
    """Embedding, the stack of decoder layers, and a last mix over everything stored."""

    def __init__(self, c: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab, c.d)
        self.layers = nn.ModuleList(DecoderLayer(c, layer) for layer in range(c.layers))
        self.output_attn_res = AttnResMix(c.candidates(c.layers - 1, "ffn"), c.eps)
        self.output_attn_res_norm = RMSNorm(c.d, c.eps)
        self.output_attn_res_proj = nn.Linear(c.d, 1, bias=False)
        self.norm = RMSNorm(c.d, c.eps)

    def forward(self, ids: Tensor, cache: Cache, real: Tensor | None = None) -> Tensor:
        """ids [B, T] and which of them are no padding; returns hidden states [B, T, d]."""
        running_sum = self.embed_tokens(ids)  # [B, T, d], not scaled
        cache.extend(ids.shape[1], ids.shape[0], real, ids.device)
        blocks: list[Tensor] = []
        for layer, past in zip(self.layers, cache.layers, strict=True):
            running_sum, blocks = layer(running_sum, blocks, past)
        mixed = self.output_attn_res(
            blocks, running_sum, self.output_attn_res_norm, self.output_attn_res_proj
        )
        return self.norm(mixed)


class LanguageModel(nn.Module):
    """The text model and its head: hidden states to logits over the vocabulary."""

    def __init__(self, c: Config):
        super().__init__()
        self.model = TextModel(c) if c.family == "k3" else ResidualTextModel(c)
        self.lm_head = nn.Linear(c.d, c.vocab, bias=False)

    def forward(self, ids: Tensor, cache: Cache, real: Tensor | None = None) -> Tensor:
        return self.lm_head(self.model(ids, cache, real))  # [B, T, vocab]


class KimiK3(nn.Module):
    """Kimi K3: a hybrid of linear and full attention with a sparse mixture of experts."""

    def __init__(self, c: Config):
        super().__init__()
        self.config = c
        self.language_model = LanguageModel(c)

    def forward(self, ids: Tensor, cache: Cache | None = None, real: Tensor | None = None) -> Tensor:
        """Token ids [B, T] to logits [B, T, vocab].

        With a cache the ids continue what it has seen. `real` [B, T] is False at padding on the left.
        """
        return self.language_model(ids, cache or self.new_cache(), real)

    def new_cache(self) -> Cache:
        return Cache(self.config.layers)

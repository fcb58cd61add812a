"""The full model, with the module names of the official checkpoint."""

from torch import Tensor, nn
from torch.nn import functional as F

from k3scope.model.attnres import AttnResMix
from k3scope.model.cache import Cache, check_mask
from k3scope.model.config import Config
from k3scope.model.kimi_linear import ResidualTextModel
from k3scope.model.layer import DecoderLayer
from k3scope.model.norm import RMSNorm
from k3scope.model.vision.projector import Projector
from k3scope.model.vision.splice import Splice, expand
from k3scope.model.vision.tower import Images, VisionTower


class TextModel(nn.Module):
    """Embedding, the stack of decoder layers, and a last mix over everything stored."""

    def __init__(self, c: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab, c.d)
        self.splice = Splice(c.media_pad)
        self.layers = nn.ModuleList(DecoderLayer(c, layer) for layer in range(c.layers))
        self.output_attn_res = AttnResMix(c.candidates(c.layers - 1, "ffn"), c.eps)
        self.output_attn_res_norm = RMSNorm(c.d, c.eps)
        self.output_attn_res_proj = nn.Linear(c.d, 1, bias=False)
        self.norm = RMSNorm(c.d, c.eps)

    def forward(
        self, ids: Tensor, cache: Cache, real: Tensor | None = None, image_rows: Tensor | None = None
    ) -> Tensor:
        """ids [B, T], which of them are no padding, rows of images; returns hidden states [B, T, d]."""
        running_sum = self.splice(self.embed_tokens(ids), ids, image_rows)  # [B, T, d], not scaled
        cache.extend(ids.shape[1], ids.shape[0], real, ids.device)
        blocks: list[Tensor] = []
        for layer, past in zip(self.layers, cache.layers, strict=True):
            running_sum, blocks = layer(running_sum, blocks, past)
        mixed = self.output_attn_res(
            blocks, running_sum, self.output_attn_res_norm, self.output_attn_res_proj
        )
        return self.norm(mixed)


class TiedHead(nn.Module):
    """The LM head of a model that has none of its own: one logit per row of the embedding table."""

    def __init__(self, table: nn.Embedding):
        super().__init__()
        object.__setattr__(self, "table", table)  # a reference, no second place in the module tree

    @property
    def weight(self) -> Tensor:  # [vocab, d]
        return self.table.weight

    def forward(self, x: Tensor) -> Tensor:  # [B, T, d]
        return F.linear(x, self.weight)


class LanguageModel(nn.Module):
    """The text model and its LM head: hidden states to logits over the vocabulary."""

    def __init__(self, c: Config):
        super().__init__()
        self.model = TextModel(c) if c.block else ResidualTextModel(c)
        self.lm_head = (
            nn.Linear(c.d, c.vocab, bias=False) if c.own_head else TiedHead(self.model.embed_tokens)
        )

    def forward(self, ids: Tensor, cache: Cache, real: Tensor | None = None, **images: Tensor) -> Tensor:
        return self.lm_head(self.model(ids, cache, real, **images))  # [B, T, vocab]


class KimiK3(nn.Module):
    """Kimi K3: a hybrid of linear and full attention with a sparse mixture of experts."""

    def __init__(self, c: Config):
        super().__init__()
        self.config = c
        self.language_model = LanguageModel(c)
        if c.vision:
            self.vision_tower = VisionTower(c.vision)
            self.mm_projector = Projector(c.vision, c.d)

    def forward(
        self,
        ids: Tensor,
        cache: Cache | None = None,
        real: Tensor | None = None,
        images: Images | None = None,
    ) -> Tensor:
        """Token ids [B, T] to logits [B, T, vocab].

        With a cache the ids continue what it has read. `real` [B, T] is False at padding, wherever it is:
        that leaves every other token and the cache as they are, and its own logits mean nothing.
        Each image has one placeholder among the ids, which is expanded into its rows, and T with it.
        ValueError for ids of no token, for a mask of another shape, and for a cache of other sequences.
        """
        if ids.ndim != 2 or not ids.shape[1]:
            raise ValueError(f"ids have shape {tuple(ids.shape)}; expected [B, T] with at least one token")
        cache, real = cache or self.new_cache(), check_mask(real, ids)
        if images is None:
            return self.language_model(ids, cache, real)
        ids, real = self.expand(ids, images, real)
        rows = self.mm_projector(self.vision_tower(images))  # [M, d]
        return self.language_model(ids, cache, real, image_rows=rows)

    def expand(self, ids: Tensor, images: Images, real: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """The ids that the text model sees, and which of them are no padding. ValueError: see `expand`."""
        c = self.config
        if c.vision is None:
            raise ValueError("this model has no vision tower: it cannot take images")
        return expand(ids, images.rows(c.vision), c.media_pad, c.pad, real)

    def new_cache(self) -> Cache:
        return Cache(self.config.layers)

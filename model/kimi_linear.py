"""Kimi-Linear: the older family, composed of the same blocks with the parts that K3 changed."""

from torch import Tensor, nn

from k3scope.model.cache import Cache, LayerCache
from k3scope.model.config import Config
from k3scope.model.ffn import SituMLP
from k3scope.model.hooks import Probe
from k3scope.model.kda import KimiDeltaAttention
from k3scope.model.mla import GatedMLA
from k3scope.model.moe import Combine, Experts, LatentMoE, Router
from k3scope.model.norm import RMSNorm
from k3scope.model.vision.splice import Splice


class LowRankGateKDA(KimiDeltaAttention):
    """Kimi Delta Attention whose output gate goes through a low rank."""

    def __init__(self, c: Config):
        super().__init__(c)
        del self.g_proj
        self.g_a_proj = nn.Linear(c.d, c.gate_rank, bias=False)
        self.g_b_proj = nn.Linear(c.gate_rank, c.kda_heads * c.kda_head_dim, bias=False)

    def output_gate(self, x: Tensor) -> Tensor:
        return self.g_b_proj(self.g_a_proj(x))


class PlainMLA(GatedMLA):
    """Latent attention with full-rank queries and no output gate."""

    def __init__(self, c: Config):
        nn.Module.__init__(self)
        self.add_keys(c)
        self.q_proj = nn.Linear(c.d, c.heads * (c.nope_dim + c.shared_key_dim), bias=False)

    def query(self, x: Tensor) -> Tensor:
        return self.q_proj(x)

    def output(self, out: Tensor, x: Tensor) -> Tensor:
        return self.o_proj(out)


class SparseMoE(nn.Module):
    """Routed experts at full width, weighed and added to shared experts that always run."""

    def __init__(self, c: Config):
        super().__init__()
        self.gate = Router(c)
        self.experts = Experts(c)
        self.combine = Combine()
        self.shared_experts = SituMLP(c, c.shared_experts * c.expert_dim) if c.shared_experts else None

    def forward(self, x: Tensor) -> Tensor:  # [B, T, d]
        index, weight = self.gate(x)
        routed = self.combine(self.experts(x, index), weight)
        return routed + self.shared_experts(x) if self.shared_experts else routed


def attention(c: Config, kind: str) -> nn.Module:
    """The attention of a layer, in the form of the model's family."""
    if kind == "kda":
        return LowRankGateKDA(c) if c.gate_rank else KimiDeltaAttention(c)
    return GatedMLA(c) if c.mla_gate else PlainMLA(c)


class ResidualLayer(nn.Module):
    """The ordinary pre-norm layer: each sublayer adds to one residual stream."""

    def __init__(self, c: Config, layer: int):
        super().__init__()
        self.input_layernorm = RMSNorm(c.d, c.eps)
        self.self_attn = attention(c, c.kinds[layer])
        self.attn_sum = Probe()
        self.post_attention_layernorm = RMSNorm(c.d, c.eps)
        if layer < c.dense_layers:
            self.mlp = SituMLP(c, c.dense)
        else:
            self.block_sparse_moe = LatentMoE(c) if c.latent else SparseMoE(c)
        self.ffn = "mlp" if layer < c.dense_layers else "block_sparse_moe"
        self.prefix_sum = Probe()

    def forward(self, x: Tensor, past: LayerCache) -> Tensor:  # [B, T, d]
        x = self.attn_sum(x + self.self_attn(self.input_layernorm(x), past))
        return self.prefix_sum(x + getattr(self, self.ffn)(self.post_attention_layernorm(x)))


class ResidualTextModel(nn.Module):
    """Embedding, a stack of ordinary pre-norm layers, and a norm."""

    def __init__(self, c: Config):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab, c.d)
        self.splice = Splice(c.media_pad) if c.family == "k3" else None
        self.layers = nn.ModuleList(ResidualLayer(c, layer) for layer in range(c.layers))
        self.norm = RMSNorm(c.d, c.eps)

    def forward(
        self, ids: Tensor, cache: Cache, real: Tensor | None = None, image_rows: Tensor | None = None
    ) -> Tensor:
        """ids [B, T], which of them are no padding, rows of images; returns hidden states [B, T, d]."""
        x = self.embed_tokens(ids)
        if self.splice:
            x = self.splice(x, ids, image_rows)
        cache.extend(ids.shape[1], ids.shape[0], real, ids.device)
        for layer, past in zip(self.layers, cache.layers, strict=True):
            x = layer(x, past)
        return self.norm(x)

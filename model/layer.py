"""One decoder layer: two sublayers, each fed by a mix over depth, both added to a running sum."""

from torch import Tensor, nn

from k3scope.model.attnres import AttnResMix
from k3scope.model.cache import LayerCache
from k3scope.model.config import Config
from k3scope.model.ffn import SituMLP
from k3scope.model.hooks import Probe
from k3scope.model.kda import KimiDeltaAttention
from k3scope.model.mla import GatedMLA
from k3scope.model.moe import LatentMoE
from k3scope.model.norm import RMSNorm

ATTENTION = {"kda": KimiDeltaAttention, "mla": GatedMLA}


class DecoderLayer(nn.Module):
    """Attention and FFN read a mix over depth and add to a sum that restarts at each block."""

    def __init__(self, c: Config, layer: int):
        super().__init__()
        self.starts_block = layer % c.block == 0
        self.self_attention_res = AttnResMix(c.candidates(layer, "attn"), c.eps)
        self.self_attention_res_norm = RMSNorm(c.d, c.eps)
        self.self_attention_res_proj = nn.Linear(c.d, 1, bias=False)
        if self.starts_block:
            self.block_store = Probe()
        self.input_layernorm = RMSNorm(c.d, c.eps)
        self.self_attn = ATTENTION[c.kinds[layer]](c)
        self.attn_sum = Probe()

        self.mlp_res = AttnResMix(c.candidates(layer, "ffn"), c.eps)
        self.mlp_res_norm = RMSNorm(c.d, c.eps)
        self.mlp_res_proj = nn.Linear(c.d, 1, bias=False)
        self.post_attention_layernorm = RMSNorm(c.d, c.eps)
        if layer < c.dense_layers:
            self.mlp = SituMLP(c, c.dense)
        else:
            self.block_sparse_moe = LatentMoE(c)
        self.ffn = "mlp" if layer < c.dense_layers else "block_sparse_moe"
        self.prefix_sum = Probe()

    def forward(
        self, running_sum: Tensor, blocks: list[Tensor], past: LayerCache
    ) -> tuple[Tensor, list[Tensor]]:
        """running_sum [B, T, d] and stored sums, each [B, T, d]; returns both for the next layer."""
        mixed = self.self_attention_res(
            blocks, running_sum, self.self_attention_res_norm, self.self_attention_res_proj
        )
        out = self.self_attn(self.input_layernorm(mixed), past)
        if self.starts_block:  # store what the block before summed up, and start again from this output
            blocks = [*blocks, self.block_store(running_sum)]
            running_sum = self.attn_sum(out)
        else:
            running_sum = self.attn_sum(running_sum + out)

        mixed = self.mlp_res(blocks, running_sum, self.mlp_res_norm, self.mlp_res_proj)
        out = getattr(self, self.ffn)(self.post_attention_layernorm(mixed))
        return self.prefix_sum(running_sum + out), blocks

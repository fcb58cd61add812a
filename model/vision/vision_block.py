"""One block of the vision tower: attention over all patches of an image, then a small MLP."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from k3scope.model.hooks import Probe
from k3scope.model.norm import widen
from k3scope.model.vision.vision_config import VisionConfig

PATTERN_PATCHES = 1024  # patches of an image up to which the attention pattern is formed, to be recorded


class VisionNorm(nn.RMSNorm):
    """Divide by the root mean square of the last axis, then scale each channel."""

    def __init__(self, vit: VisionConfig):
        super().__init__(vit.d, eps=vit.eps)


class Rotate2D(nn.Module):
    """Turn pairs of channels by angles that grow with the column and the row of the patch."""

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        """x [N, vit_heads, vit_head_dim], angles [N, vit_head_dim / 2]; pairs are neighbouring channels."""
        a, b = widen(x).unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


class JointAttention(nn.Module):
    """Attention among all patches of an image or clip, in both directions; items never mix."""

    def __init__(self):
        super().__init__()
        self.probs = Probe()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, lengths: list[int]) -> Tensor:
        """q, k, v and the result [N, vit_heads, vit_head_dim]; `lengths`: patches of each item."""
        q, k, v = (x.transpose(0, 1).split(lengths, 1) for x in (q, k, v))  # per item [vit_heads, n, ..]
        # the pattern of a large image is n * n numbers per head: then it is never formed
        probs = tuple(
            _pattern(a, b) if a.shape[1] <= PATTERN_PATCHES else None for a, b in zip(q, k, strict=True)
        )
        probs = self.probs(probs)
        read = [
            p @ c if p is not None else _fused(a, b, c) for p, a, b, c in zip(probs, q, k, v, strict=True)
        ]
        return torch.cat(read, 1).transpose(0, 1)


def _pattern(q: Tensor, k: Tensor) -> Tensor:
    """Who reads whom: [vit_heads, n, n], rows sum to 1."""
    score = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    return widen(score).softmax(-1).to(q.dtype)


def _fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The same read-out block by block; torch does so for four axes only, and forms all of it for three."""
    return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]


class VisionMLP(nn.Module):
    """Two linear layers with a tanh-approximated GELU between them."""

    def __init__(self, vit: VisionConfig):
        super().__init__()
        self.fc0 = nn.Linear(vit.d, vit.mlp, bias=False)
        self.act = Probe()
        self.fc1 = nn.Linear(vit.mlp, vit.d, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [N, vit_d]
        return self.fc1(self.act(F.gelu(self.fc0(x), approximate="tanh")))


class VisionBlock(nn.Module):
    """Attention and an MLP, each on the normed stream and added back to it."""

    def __init__(self, vit: VisionConfig):
        super().__init__()
        self.vit = vit
        self.norm0 = VisionNorm(vit)
        self.wqkv = nn.Linear(vit.d, 3 * vit.qkv, bias=False)
        self.q_rope = Rotate2D()
        self.k_rope = Rotate2D()
        self.attention = JointAttention()
        self.wo = nn.Linear(vit.qkv, vit.d, bias=False)
        self.attn_sum = Probe()
        self.norm1 = VisionNorm(vit)
        self.mlp = VisionMLP(vit)
        self.mlp_sum = Probe()

    def forward(self, x: Tensor, angles: Tensor, lengths: list[int]) -> Tensor:  # [N, vit_d]
        vit = self.vit
        qkv = self.wqkv(self.norm0(x)).unflatten(-1, (3, vit.heads, vit.head_dim))
        q, k, v = qkv.unbind(1)  # [N, vit_heads, vit_head_dim] each
        out = self.attention(self.q_rope(q, angles), self.k_rope(k, angles), v, lengths)
        x = self.attn_sum(x + self.wo(out.flatten(1)))
        return self.mlp_sum(x + self.mlp(self.norm1(x)))

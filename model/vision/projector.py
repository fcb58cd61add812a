"""From the tower's rows to rows that stand between token embeddings."""

from torch import Tensor, nn

from k3scope.model.norm import RMSNorm
from k3scope.model.vision.vision_config import VisionConfig


class Projector(nn.Module):
    """Two linear layers with an exact GELU between, then a norm: merged patches to text width."""

    def __init__(self, vit: VisionConfig, d: int):
        super().__init__()
        width = vit.merge**2 * vit.d
        self.proj = nn.Sequential(
            nn.Linear(width, width, bias=False), nn.GELU(), nn.Linear(width, d, bias=False)
        )
        self.post_norm = RMSNorm(d, vit.projector_eps)

    def forward(self, x: Tensor) -> Tensor:  # [M, vit_merge * vit_merge * vit_d]
        return self.post_norm(self.proj(x))  # [M, d]

"""The gated feed-forward layer that the dense layer and the shared experts use."""

from torch import Tensor, nn

from k3scope.model.config import Config
from k3scope.model.hooks import Probe
from k3scope.model.kernels.reference import situ_glu


class SituMLP(nn.Module):
    """Feed-forward layer with SiTU-GLU: both halves of the product are softly capped by tanh."""

    def __init__(self, c: Config, width: int):
        super().__init__()
        self.c = c
        self.gate_proj = nn.Linear(c.d, width, bias=False)
        self.up_proj = nn.Linear(c.d, width, bias=False)
        self.act = Probe()
        self.down_proj = nn.Linear(width, c.d, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, T, d]
        act = situ_glu(self.gate_proj(x), self.up_proj(x), self.c.gate_cap, self.c.up_cap)
        return self.down_proj(self.act(act))

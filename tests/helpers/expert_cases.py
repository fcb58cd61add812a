"""Sizes and inputs on which every path of the experts must agree with float64."""

import torch

from k3scope.model.kernels import mxfp4

# N tokens, E experts, k chosen, latent, width
SIZES = [
    (0, 4, 2, 16, 32),
    (1, 16, 4, 64, 64),
    (1, 200, 8, 16, 32),
    (7, 20, 3, 48, 144),
    (33, 5, 5, 16, 12),
    (64, 3, 1, 21, 13),
    (150, 4, 2, 128, 96),
]


def inputs(N, E, k, latent, width, dtype=torch.float64, large=1.0):
    g = torch.Generator().manual_seed(N + E)
    make = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)  # noqa: E731
    index = torch.rand(N, E, generator=g).topk(k, -1).indices
    w1, w3 = (large * make(E, width, latent) / latent**0.5 for _ in range(2))
    tensors = make(N, latent), w1, w3, make(E, latent, width) / width**0.5
    x, w1, w3, w2 = (t.float().to(dtype) for t in tensors)
    return x, index, w1, w3, w2


def packed_inputs(N=9, E=6, k=2, latent=64, width=96):
    x, index, *weights = inputs(N, E, k, latent, width)
    pairs = [mxfp4.encode(w) for w in weights]
    return x, index, [p for p, _ in pairs], [s for _, s in pairs]

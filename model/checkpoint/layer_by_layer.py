"""Run a checkpoint layer by layer: one that is larger than memory, or only partly downloaded."""

from contextlib import suppress

import torch
from torch import Tensor, nn

from k3scope.model.checkpoint.checkpoint import LAYERS, Checkpoint
from k3scope.model.hooks import record, watch
from k3scope.model.init import build
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.tracing import Trace, check_ids


class FixedEmbedding(nn.Module):
    """Stands where the embedding is: hands out hidden states [B, T, d] that were computed elsewhere."""

    def __init__(self, hidden: Tensor):
        super().__init__()
        self.hidden = hidden

    def forward(self, ids: Tensor) -> Tensor:
        return self.hidden


class _LastLayerDone(Exception):
    """The last layer that can run has run."""


def streamed(checkpoint: Checkpoint, dtype: torch.dtype | None = None, device: str = "cpu") -> KimiK3:
    """A model whose layers load themselves when they are reached, and only the experts that are chosen.

    At any time one layer is in memory. What the folder lacks stays on the meta device.
    """
    model = build(checkpoint.config).eval().requires_grad_(False)
    checkpoint.replace_experts(model, checkpoint.experts_on_demand)
    missing = {tensor.parameter for name in checkpoint.missing if (tensor := checkpoint.layout.find(name))}
    for path in checkpoint.layout.entries:
        if not path.startswith(LAYERS) and path not in missing:
            checkpoint.fill(model, path, dtype, device)
    for n, layer in enumerate(model.language_model.model.layers[: checkpoint.complete_layers]):
        _loads_itself(model, layer, n, lambda prefix: checkpoint.fill(model, prefix, dtype, device))
    return model


def _loads_itself(model: KimiK3, layer: nn.Module, n: int, fill) -> None:
    empty = dict(layer.named_parameters())

    def enter(*_):
        fill(f"{LAYERS}{n}.")

    def leave(*_):
        for path, parameter in empty.items():
            owner, _, leaf = path.rpartition(".")
            setattr(layer.get_submodule(owner), leaf, parameter)

    layer.register_forward_pre_hook(enter)
    layer.register_forward_hook(leave, always_call=True)


@torch.no_grad()
def run_leading(
    checkpoint: Checkpoint,
    inputs: Tensor,
    layers: int | None = None,
    dtype: torch.dtype | None = None,
    device: str = "cpu",
) -> Trace:
    """The values inside the first `layers` layers (None: all that are complete); no logits.

    `inputs` are ids [B, T] or [T], or hidden states [B, T, d] or [T, d] as the embedding gives them.
    ValueError when the inputs do not fit or the layers are not there.
    """
    layers = checkpoint.complete_layers if layers is None else layers
    if not 0 < layers <= checkpoint.complete_layers:
        raise ValueError(f"{layers} layers cannot run; {checkpoint.problem() or 'expected at least one'}")
    model = streamed(checkpoint, dtype, device)
    ids = _inputs(checkpoint, model, inputs, dtype or getattr(torch, checkpoint.config.stored), device)

    def stop(path: str) -> None:
        if path == f"{LAYERS}{layers - 1}":
            raise _LastLayerDone

    with record(on_point=stop) as values, suppress(_LastLayerDone):
        watch(model)(ids)
    return Trace(ids, None, values)


def _inputs(checkpoint: Checkpoint, model: KimiK3, inputs: Tensor, dtype, device) -> Tensor:
    """Ids for the pass; hidden states go in where the embedding is, and their ids mean nothing."""
    if not inputs.is_floating_point():
        if not checkpoint.has_embedding:
            raise ValueError(f"{checkpoint.problem()}; without the embedding, give hidden states")
        return check_ids(model, inputs).to(device)
    d = checkpoint.config.d
    hidden = inputs[None] if inputs.ndim == 2 else inputs
    if hidden.ndim != 3 or hidden.shape[-1] != d or not hidden.shape[1]:
        raise ValueError(f"hidden states have shape {tuple(inputs.shape)}; expected [T, {d}] or [B, T, {d}]")
    hidden = hidden.to(device=device, dtype=dtype)
    model.language_model.model.embed_tokens = FixedEmbedding(hidden)
    return torch.zeros(hidden.shape[:2], dtype=torch.long, device=device)

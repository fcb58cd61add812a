"""The official tensors of a live model, made one at a time."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from k3scope.model.checkpoint.tensor_layout import NAMES, Layout, Stored, TensorEntry
from k3scope.model.config import Config
from k3scope.model.files.safetensors_shard import DTYPES
from k3scope.model.kernels import mxfp4
from k3scope.model.kimi_k3 import KimiK3
from k3scope.model.moe_packed import PackedExperts
from k3scope.model.quantization.quantization import MXFP4

CODES = {dtype: code for code, dtype in DTYPES.items()}


class Export:
    """What a model looks like in a checkpoint: `dtype` None keeps its own, `packed` None asks the config.

    `packed` True may round experts to MXFP4; otherwise they must be such numbers already.
    """

    def __init__(self, model: KimiK3, dtype: torch.dtype | None, packed: bool | None):
        self.model, self.dtype, self.may_round = model, dtype, bool(packed)
        self.config = self._config(model.config, packed)
        self.layout = Layout(model, self.config)
        if reason := self.layout.cannot_run:
            raise ValueError(f"{reason}; packed=False writes numbers")
        self._encoded: tuple[Stored, tuple[Tensor, Tensor]] | None = None

    def __iter__(self) -> Iterator[Stored]:
        for tensor in self.layout:
            yield tensor if tensor.dtype == "U8" else replace(tensor, dtype=CODES[self._dtype(tensor)])

    def value(self, tensor: Stored) -> Tensor:
        """The numbers as they are stored, on the CPU."""
        if tensor.dtype == "U8":
            value = self._packed(tensor)[tensor.role == "scale"]
        elif tensor.expert is None:
            value = self.model.get_parameter(tensor.parameter)
        else:
            value = self._expert(tensor)
        return value.detach().to("cpu", DTYPES[tensor.dtype]).reshape(tensor.shape).contiguous()

    def _config(self, c: Config, packed: bool | None) -> Config:
        own = self.dtype or self.model.language_model.model.embed_tokens.weight.dtype
        stored = next((name for name, code in NAMES.items() if code == CODES.get(own)), None)
        if stored is None:
            raise ValueError(f"a checkpoint cannot be {own}; expected one of {', '.join(NAMES)}")
        kept = c.quantization if c.packed_experts else MXFP4
        quantization = c.quantization if packed is None else kept if packed else None
        return replace(c, stored=stored, quantization=quantization)

    def _dtype(self, tensor: Stored) -> torch.dtype:
        if self.dtype is None:
            bank = self._bank(tensor)
            return torch.bfloat16 if bank else self.model.get_parameter(tensor.parameter).dtype
        exact = self._entry(tensor).exact
        return torch.promote_types(self.dtype, torch.float32) if exact else self.dtype

    def _entry(self, tensor: Stored) -> TensorEntry:
        return self.layout.entries[tensor.parameter]

    def _bank(self, tensor: Stored) -> PackedExperts | None:
        """The module that has the experts of this tensor packed, if it does."""
        module = self.model.get_submodule(tensor.parameter.rpartition(".")[0])
        return module if isinstance(module, PackedExperts) else None

    def _expert(self, tensor: Stored) -> Tensor:
        if bank := self._bank(tensor):
            return bank.read(tensor.parameter.rpartition(".")[2], tensor.expert)
        return self.model.get_parameter(tensor.parameter)[tensor.expert]

    def _packed(self, tensor: Stored) -> tuple[Tensor, Tensor]:
        """Codes and scales; they are requested one after the other, and encoded once."""
        if bank := self._bank(tensor):
            return bank.stored(tensor.parameter.rpartition(".")[2], tensor.expert)
        key = replace(tensor, name="", role="", shape=())
        if self._encoded is None or self._encoded[0] != key:
            self._encoded = key, self._encode(tensor)
        return self._encoded[1]

    def _encode(self, tensor: Stored) -> tuple[Tensor, Tensor]:
        weight = self._expert(tensor).detach()
        pair = mxfp4.encode(weight)
        if not self.may_round and not torch.equal(mxfp4.decode(*pair, dtype=weight.dtype), weight):
            raise ValueError(
                f"{tensor.name}: these are no MXFP4 numbers; packed=True rounds them, "
                "packed=False stores them as they are"
            )
        return pair

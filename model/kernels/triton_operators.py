"""The operators that Triton computes, under their names in `ops`."""

from k3scope.model.kernels.kda_triton import kda
from k3scope.model.kernels.mix_conv_triton import mix, short_conv
from k3scope.model.kernels.moe_triton import combine, experts, experts_mxfp4, route

__all__ = ["combine", "experts", "experts_mxfp4", "kda", "mix", "route", "short_conv"]

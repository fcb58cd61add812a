"""The operators that Triton computes, under their names in `ops`."""

from k3scope.model.kernels.kda_triton import kda
from k3scope.model.kernels.moe_triton import combine, experts, experts_mxfp4, route
from k3scope.model.kernels.small_triton import mix, short_conv

__all__ = ["combine", "experts", "experts_mxfp4", "kda", "mix", "route", "short_conv"]

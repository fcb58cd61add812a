"""The operators that Triton computes, under their names in `ops`."""

from model.kernels.kda_triton import kda
from model.kernels.moe_triton import combine, experts, experts_mxfp4, route
from model.kernels.small_triton import mix, short_conv

__all__ = ["combine", "experts", "experts_mxfp4", "kda", "mix", "route", "short_conv"]
